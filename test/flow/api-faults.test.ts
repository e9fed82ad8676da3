import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { InstanceRecord } from '../../src/inventory/types.ts';
import type { AuditEntry } from '../../src/local-cluster/audit.ts';
import { claimName, podName } from '../../src/names.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { writeFaults } from '../support/soak/api-faults.ts';
import { duplicatesOf } from '../support/soak/audit.ts';
import { createWorld, type World } from '../support/world.ts';

let dir: string;
let embedded: EmbeddedCluster;
let world: World;
/** Requests that take longer are answers that never came. */
const requestTimeoutSeconds = 2;
/** Lives side by side: most of their time is waiting, but more than the machine can serve would be faults of its own. */
const lanes = 24;
/** First, so that the rest is done meanwhile: a removal waits a minute for a create that may still land. */
const slowest = 'done after the answer was given up';

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-api-faults-'));
  await writeFaults(join(dir, 'faults'), []);
  embedded = await startCluster({ faults: join(dir, 'faults'), auditLog: join(dir, 'audit') });
  const cluster = { authMode: 'kubeconfig', kubeconfigPath: embedded.kubeconfig, namespace: 'default', requestTimeoutSeconds };
  const config = { clusters: { default: cluster }, limits: { perOwner: 1000 } };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
  await rm(dir, { recursive: true, force: true });
});

const error = (code: number, reason: string, more: object = {}) => ({ error: { code, reason, ...more } });
const anywhere: Readonly<Record<string, unknown>> = {
  500: error(500, 'InternalError'),
  503: error(503, 'ServiceUnavailable'),
  429: error(429, 'TooManyRequests', { retryAfter: 1 }),
  'connection reset': 'drop_before',
  'no answer in time': { delayMs: 3000 },
};
const onWrites: Readonly<Record<string, unknown>> = {
  'done, answer lost': 'commit_then_drop',
  [slowest]: { delayThenCommitMs: 3000 },
  'webhook down': { webhookDown: true },
};
const onExec: Readonly<Record<string, unknown>> = {
  'stream cut': { exec_drop_after: 1 },
  'no status': 'exec_no_status',
};
const onForward: Readonly<Record<string, unknown>> = { refused: 'forward_refuse', reset: 'forward_reset' };

interface Call {
  readonly verb: string;
  readonly resource: string;
  readonly subresource: string;
  /** Which of them: a launch or a teardown may make several. */
  readonly nth: number;
}

function faultsOf({ verb, subresource }: Call): Readonly<Record<string, unknown>> {
  if (subresource === 'exec') return { ...anywhere, ...onExec };
  if (subresource === 'portforward') return { 500: anywhere[500], ...onForward };
  return verb === 'get' ? anywhere : { ...anywhere, ...onWrites };
}

/** Later reads of a kind are looks at something that takes its time. */
const eachKind = (verb: string) => (verb === 'get' ? 1 : 2);

const request = (instanceId: string) => ({ version: 1, instanceId, profile: 'node' });
const tearDown = (instanceId: string) =>
  world.operator.producer.teardown({ version: 1, instanceId, cleanup: 'true', reason: 'done' });

async function audit(): Promise<AuditEntry[]> {
  const lines = (await readFile(join(dir, 'audit'), 'utf8')).trim().split('\n');
  return lines.map((line) => JSON.parse(line) as AuditEntry);
}

const isOf = (id: string) => {
  const hash = world.operator.inventory.hashOf(id);
  return ({ name }: { readonly name: string }) => name === podName(hash) || name === claimName(hash);
};
const leftoversOf = async (id: string) =>
  (await world.leftovers()).filter((left) => left.includes(world.operator.inventory.hashOf(id)));

/** By the API server's own log of an undisturbed life: what is new there is met by every fault without anyone adding it. */
async function callsOfALife(): Promise<Call[]> {
  await world.operator.producer.launch(request('undisturbed'));
  await world.ready('undisturbed');
  await tearDown('undisturbed');
  await world.gone('undisturbed');
  const counts = new Map<string, Call>();
  for (const { verb, resource, subresource } of (await audit()).filter(isOf('undisturbed'))) {
    const kind = `${verb} ${resource} ${subresource}`;
    const nth = [...counts.keys()].filter((known) => known.startsWith(`${kind}#`)).length + 1;
    if (nth <= eachKind(verb)) counts.set(`${kind}#${nth}`, { verb, resource, subresource, nth });
  }
  return [...counts.values()];
}

/** One of this many: all would be a minute more of every run. CI meets them all, with $WINDLASS_EVERY_FAULT. */
const share = process.env.WINDLASS_EVERY_FAULT === '1' ? 1 : 5;

interface Case {
  readonly id: string;
  readonly call: Call;
  readonly rule: object;
}

function casesOf(calls: readonly Call[]): Case[] {
  return calls.flatMap((call) =>
    Object.entries(faultsOf(call)).map(([what, fault]) => {
      const { verb, resource, subresource, nth } = call;
      const id = `${what} at ${verb} ${resource} ${subresource} ${nth}`.replace(/ +/g, ' ');
      const hash = world.operator.inventory.hashOf(id);
      const name = resource === 'pods' ? podName(hash) : claimName(hash);
      return { id, call, rule: { verb, resource, ...(subresource ? { subresource } : {}), name, nth, fault } };
    }),
  );
}

/** One life under one fault: ready with one Pod and one claim, then gone with nothing left. What is wrong, or nothing. */
async function live({ id, call }: Case): Promise<string[]> {
  await world.operator.producer.launch(request(id));
  const over = (record: InstanceRecord | undefined) => record?.state === 'ready' || record?.state === 'failed';
  const record = await world.until(id, over, 150);
  const objects = await leftoversOf(id);
  const wrong: string[] = [];
  if (record?.state !== 'ready') wrong.push(`${record?.state}: ${record?.failure?.code} ${record?.failure?.message}`);
  if (objects.length !== 2) wrong.push(`${record?.state} with ${objects.join(', ')}`);
  await tearDown(id);
  await world.gone(id, 150);
  wrong.push(...(await leftoversOf(id)).map((left) => `gone with ${left}`));
  const met = (await audit())
    .filter(isOf(id))
    .filter(
      ({ verb, resource, subresource }) => verb === call.verb && resource === call.resource && subresource === call.subresource,
    );
  if (met.length < call.nth) wrong.push(`met the call only ${met.length} times`);
  return wrong.map((what) => `${id}: ${what}`);
}

describe('one fault of the API server', () => {
  it('of each kind at each call of a launch and its teardown: ready with one Pod and one claim, then gone', async () => {
    const calls = await callsOfALife();
    const kinds = calls.map(({ verb, resource, subresource }) => [verb, resource, subresource].join(' ').trim());
    for (const resource of ['pods', 'persistentvolumeclaims'])
      for (const verb of ['create', 'delete']) expect(kinds).toContain(`${verb} ${resource}`);
    expect(kinds).toEqual(expect.arrayContaining(['get pods exec', 'get pods portforward']));
    const cases = casesOf(calls).filter((_, at) => at % share === 0);
    await writeFaults(
      join(dir, 'faults'),
      cases.map(({ rule }) => rule),
    );
    const wrong: string[] = [];
    const isSlow = ({ id }: Case) => Number(id.startsWith(slowest));
    const left = cases.toSorted((a, b) => isSlow(b) - isSlow(a));
    const lane = async () => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) wrong.push(...(await live(next)));
    };
    await Promise.all(Array.from({ length: lanes }, lane));
    expect(wrong).toEqual([]);
    expect(duplicatesOf(await audit())).toEqual([]);
    expect(await world.leftovers()).toEqual([]);
  }, 400_000);
});
