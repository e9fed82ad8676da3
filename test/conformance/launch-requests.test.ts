import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { EffectMessage } from '../../src/effects.ts';
import { builtSweeps } from '../../src/jobs/catalog.ts';
import { createWorld, type World } from '../support/world.ts';
import { openTarget } from './target.ts';

const target = await openTarget();
let world: World;

interface UndiciRequest {
  readonly request: { readonly method: string; readonly path: string };
}

/** Counts what is sent to the API meanwhile: HTTP requests by method and kind, and streams by their effect. */
async function countRequests(run: () => Promise<unknown>): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  const count = (what: string) => {
    counts[what] = (counts[what] ?? 0) + 1;
  };
  const onRequest = (message: unknown) => {
    const { method, path } = (message as UndiciRequest).request;
    const kind = new RegExp(`^/api/v1/namespaces/${target.namespace}/([a-z]+)`).exec(path)?.[1];
    if (kind !== undefined) count(`${path.includes('watch=') ? 'WATCH' : method} ${kind}`);
  };
  const onEffect = (message: unknown) => {
    const { phase, name } = message as EffectMessage;
    if (phase === 'before' && ['kube.exec', 'kube.forward'].includes(name)) count(name);
  };
  subscribe('undici:request:create', onRequest);
  subscribe('windlass:effect', onEffect);
  try {
    await run();
  } finally {
    unsubscribe('undici:request:create', onRequest);
    unsubscribe('windlass:effect', onEffect);
  }
  return Object.fromEntries(Object.entries(counts).sort());
}

const launch = async (id: string) => {
  await world.operator.producer.launch({ version: 1, instanceId: id, profile: 'node' });
  await world.ready(id);
};

beforeAll(async () => {
  // Bound once the Pod has a node: of a claim that is bound too late for the scheduler, its events are asked for as well.
  const storageClass = target.classes.firstConsumer;
  world = await createWorld({
    kubeconfig: target.kubeconfig,
    namespace: target.namespace,
    image: 'node:local',
    storageClass,
    // Once a year: a scheduled sweep would be counted too.
    config: { sweeps: Object.fromEntries(builtSweeps.map((kind) => [kind, { cron: '0 0 1 1 *' }])) },
  });
  await world.worker();
  // The first launch also opens the watches and makes the shared ConfigMaps.
  await launch('first');
});
afterAll(async () => {
  await world?.stop();
  await target.close();
});

it('a launch costs four requests on every cluster, and none while it waits', async () => {
  const { 'kube.forward': forwards, ...others } = await countRequests(() => launch('second'));
  expect(others).toEqual({ 'POST persistentvolumeclaims': 1, 'POST pods': 1, 'kube.exec': 1 });
  // One more for each time that the agent did not listen yet, on a machine that has other things to do.
  expect(forwards).toBeGreaterThan(0);
});
