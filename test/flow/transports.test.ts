import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { recordEffects, resumeSteps } from '../support/resume-steps.ts';
import { createWorld, type World } from '../support/world.ts';

let dir: string;
let embedded: EmbeddedCluster;
let world: World;
let steps: ReturnType<typeof resumeSteps>;

/** Pods have addresses of their own only in path mode; the rest of this suite does not care. */
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-transports-'));
  await rules([]);
  embedded = await startCluster({ faults: join(dir, 'faults.json'), sandbox: 'none' });
  const profile = { podTemplateFile: 'profiles/node.yaml', workspace: { mode: 'empty_dir' } };
  const profiles = {
    node: profile,
    forward: { ...profile, handshake: 'port_forward', budgets: { connect: 4 } },
    exec: { ...profile, handshake: 'exec' },
    address: { ...profile, handshake: 'pod_ip' },
  };
  const config = { installation: 'transports', profiles };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  steps = resumeSteps(world);
  await world.worker();
});
afterAll(async () => {
  await world.stop();
  await embedded.close();
  await rm(dir, { recursive: true, force: true });
});
beforeEach(() => rules([]));

const rules = (list: readonly object[]) => writeFile(join(dir, 'faults.json'), JSON.stringify({ rules: list }));
const onForward = (fault: unknown, more: object = {}) => ({
  verb: 'create',
  resource: 'pods',
  subresource: 'portforward',
  fault,
  ...more,
});
const denied = (resource: string) => `pods "x" is forbidden: User "worker" cannot create resource "${resource}" in API group ""`;
const forbidden = { error: { code: 403, reason: 'Forbidden', message: denied('pods/portforward') } };

/** Side effects of this process (the worker's are among them), by name. */
async function counted(run: () => Promise<unknown>): Promise<Record<string, number>> {
  const effects = recordEffects();
  await run().finally(() => effects.stop());
  const counts: Record<string, number> = {};
  for (const name of effects.stop()) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

const works = async (id: string) => expect((await world.exec(id, ['echo', id])).stdout).toBe(`${id}\n`);

describe('handshake auto', () => {
  it('uses port_forward where it works, and opens a forward again that did not start or died', async () => {
    await rules([onForward('forward_refuse', { nth: 1 }), onForward('forward_reset', { nth: 2 })]);
    const record = await steps.launch('rebuilt-forward');
    expect(record.agent).toMatchObject({ transport: 'port_forward', state: 'healthy' });
    await works('rebuilt-forward');
  });

  it('C63 goes over to exec where the runtime forwards no ports, records it, and begins with exec the next time', async () => {
    await rules([onForward('forward_refuse')]);
    const record = await steps.launch('first');
    expect(record.agent).toMatchObject({ transport: 'exec', port: 8765, state: 'healthy' });
    await works('first');
    // Still refused, and nobody asks any more.
    expect((await counted(() => steps.launch('second')))['kube.forward']).toBeUndefined();
    expect((await world.operator.inventory.read('second'))?.agent?.transport).toBe('exec');
    await works('second');
  });

  it('stays with the recorded way when the instance is worked with again, whatever was learnt since', async () => {
    await rules([onForward('forward_refuse')]);
    await steps.killAgent('first');
    await steps.restarted('first');
    const after = await steps.reconnected('first');
    expect(after.agent).toMatchObject({ transport: 'exec', state: 'healthy' });
    await works('first');
  });

  it('goes back to port_forward when exec is what does not work', async () => {
    // The bootstrap is the first exec; the relay would be the second.
    const refusal = { error: { code: 403, reason: 'Forbidden', message: denied('pods/exec') } };
    await rules([{ verb: 'create', resource: 'pods', subresource: 'exec', nth: 2, times: 99, fault: refusal }]);
    expect((await steps.launch('back')).agent?.transport).toBe('port_forward');
    await rules([]);
    // The bootstrap and no relay; more than one forward where the agent did not listen at once.
    const counts = await counted(() => steps.launch('again'));
    expect(counts['kube.exec']).toBe(1);
    expect(counts['kube.forward']).toBeGreaterThan(0);
  });

  it('needs no right to forward', async () => {
    await rules([onForward(forbidden)]);
    expect((await steps.launch('unforwarded')).agent?.transport).toBe('exec');
  });
});

describe('a named handshake', () => {
  it('exec never opens a forward', async () => {
    const counts = await counted(() => steps.launch('by-exec', { profile: 'exec' }));
    expect(counts['kube.forward']).toBeUndefined();
    expect((await world.operator.inventory.read('by-exec'))?.agent?.transport).toBe('exec');
    await works('by-exec');
  });

  it('pod_ip serves on the Pod’s address and is reached there, without forward', async () => {
    const counts = await counted(() => steps.launch('by-address', { profile: 'address' }));
    expect(counts['kube.forward']).toBeUndefined();
    const record = await world.operator.inventory.read('by-address');
    expect(record?.agent?.transport).toBe('pod_ip');
    expect(record?.pod?.ip).toMatch(/^127\.\d+\.\d+\.\d+$/);
    await works('by-address');
  });

  it('port_forward has no fallback: the failure says what stood in the way', async () => {
    await rules([onForward('forward_refuse')]);
    await world.operator.producer.launch({ version: 1, instanceId: 'refused', profile: 'forward' });
    const ended = await world.until('refused', (record) => record?.state === 'failed');
    expect(ended?.failure).toMatchObject({ code: 'launch_deadline', stage: 'connect' });
    expect(ended?.failure?.message).toMatch(/could not be reached. port_forward: /);
    await rules([onForward(forbidden)]);
    await world.operator.producer.launch({ version: 1, instanceId: 'forbidden', profile: 'forward' });
    const noRight = await world.until('forbidden', (record) => record?.state === 'failed');
    expect(noRight?.failure).toMatchObject({ code: 'permission_denied', stage: 'connect' });
  });
});
