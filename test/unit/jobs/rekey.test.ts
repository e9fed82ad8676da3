import type { V1Pod } from '@kubernetes/client-node';
import { afterEach, expect, it } from 'vitest';
import { agentctlNonceCommand } from '../../../src/agent/agentctl-bootstrap.ts';
import { agentctlPorts, createAgentctlClient } from '../../../src/agent/agentctl-client.ts';
import { type RunningPod, rekeyAgent } from '../../../src/jobs/rekey.ts';
import type { Cluster } from '../../../src/kubernetes/port.ts';
import { type AgentctlStub, startAgentctl } from '../../support/agentctl/stub.ts';
import { nonce } from '../agent/harness.ts';

const armed = 'a'.repeat(nonce.length);
let stub: AgentctlStub | undefined;
afterEach(async () => {
  await stub?.close();
  stub = undefined;
});

const podOf = (id: string, uid = 'pod-1'): V1Pod => ({
  metadata: { name: 'windlass-abc', uid },
  status: {
    containerStatuses: [
      { name: 'agent', containerID: id, restartCount: 0, image: '', imageID: '', ready: true, state: { running: {} } },
    ],
  },
});

/** A cluster whose next looks at the Pod answer what `looks` says, the last one from then on. */
function running(
  looks: (() => V1Pod | undefined | Promise<V1Pod | undefined>)[],
  said = { exitCode: 0, stdout: armed },
): RunningPod {
  let look = 0;
  const cluster = {
    exec: async (_target: object, command: readonly string[]) =>
      command[2] === agentctlNonceCommand()[2] ? { stderr: '', ...said } : { exitCode: 0, stdout: '', stderr: '' },
    read: async () => looks[Math.min(look++, looks.length - 1)]?.(),
    forward: async () => ({ port: stub?.port ?? 0, trouble: () => undefined, close: async () => undefined }),
  } as unknown as Cluster;
  const names = { pod: 'windlass-abc', container: 'agent', ip: '', instanceId: 'one', hash: 'abc' };
  return { cluster, ...names, protocol: 'agentctl', transport: 'port_forward', signal: new AbortController().signal };
}

async function start(): Promise<AgentctlStub> {
  stub = await startAgentctl({
    AGENTCTL_PORT: '0',
    AGENTCTL_INSTANCE_PORT_BASE: String(agentctlPorts.base),
    AGENTCTL_INSTANCE_PORT_MAX: String(agentctlPorts.max),
    AGENTCTL_BOOTSTRAP_NONCE: armed,
  });
  return stub;
}

it('takes no token from the agent that is about to end, nor its container for the new one', async () => {
  // Its launch had not shaken hands: the nonce is armed, and the old agent serves on until its container is another one.
  const agent = await start();
  const restarted = async () => {
    await agent.restart();
    return podOf('new');
  };
  const old = () => podOf('old');
  const rekeyed = await rekeyAgent(running([old, old, old, restarted]));
  expect(rekeyed).toMatchObject({ nonce: armed, id: 'abc' });
  expect(rekeyed?.pod?.status?.containerStatuses?.[0]?.containerID).toBe('new');
  const { token = '' } = rekeyed ?? {};
  const client = createAgentctlClient({ host: '127.0.0.1', port: agent.port, instanceId: 'abc', token });
  expect(await client.instance()).toMatchObject({ id: 'abc', port: rekeyed?.port });
  expect(agent.handshakes()).toBe(1);
});

it('says that the Pod is gone when it goes in the middle, or is another one', async () => {
  for (const next of [undefined, podOf('new', 'pod-2')]) {
    const given = running([() => podOf('old'), () => next]);
    await expect(rekeyAgent(given)).rejects.toMatchObject({ code: 'pod_disrupted' });
  }
});

it('has nothing to ask where no agent was started, and keeps what else the Pod says to itself', async () => {
  const old = () => podOf('old');
  expect(await rekeyAgent(running([old], { exitCode: 3, stdout: '' }))).toBeUndefined();
  for (const said of [
    { exitCode: 0, stdout: 'TOKEN=hush' },
    { exitCode: 2, stdout: 'hush' },
  ]) {
    const error = await rekeyAgent(running([old], said)).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'exec_lost' });
    expect(JSON.stringify(error)).not.toContain('hush');
    expect((error as Error).message).not.toContain('hush');
  }
});
