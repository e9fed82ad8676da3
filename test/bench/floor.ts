import { randomBytes } from 'node:crypto';
import { bootLine, bootstrapCommand } from '../../src/agent/boot.ts';
import { createAgentClient } from '../../src/agent/client.ts';
import { agentConfigMap, bootstrapInput } from '../../src/agent/delivery.ts';
import { agentPort } from '../../src/agent/protocol.ts';
import { poll } from '../../src/clock.ts';
import { createRecipes } from '../../src/jobs/recipes.ts';
import { type ComposeInput, composeClaim, composePod } from '../../src/kubernetes/compose.ts';
import { claimName, instanceHash, podName } from '../../src/names.ts';
import type { World } from '../support/world.ts';

/** The least that a launch can be: claim, Pod, running, one exec, forward, handshake, instance. Milliseconds. */
export async function floorOfLaunch(world: World, instanceId: string): Promise<number> {
  const { cluster, loaded } = world;
  const { profile, template } = createRecipes(loaded.config, loaded.templates).find('profile', 'node');
  const hash = instanceHash('floor', instanceId);
  const nonce = randomBytes(32).toString('hex');
  const map = agentConfigMap(loaded.config.installation);
  const program = { protocol: 'windlass', sha256: map.sha256 } as const;
  const input: ComposeInput = {
    identity: { installation: 'floor', instanceId, hash, owner: 'bench', cluster: 'default', profile: 'node' },
    namespace: cluster.namespace,
    generation: 1,
    nonce,
    profile,
    template,
    workspaceClaim: claimName(hash),
    agent: { configMapName: map.name, program, bootLine: bootLine(program) },
    prepares: false,
  };
  const start = performance.now();
  const claim = await cluster.create('persistentvolumeclaims', composeClaim(input));
  const pod = await cluster.create('pods', composePod(input));
  const running = async () => {
    const seen = await cluster.read('pods', podName(hash));
    return seen?.status?.containerStatuses?.some((status) => status.state?.running !== undefined) ?? false;
  };
  if (!(await poll(running, { everyMs: 10, forMs: 60_000 }))) throw new Error('the floor Pod did not run');
  const bootstrap = bootstrapInput({ nonce, runtimeEnv: {}, authEnv: {}, secretNames: [] });
  await cluster.exec({ pod: podName(hash), container: profile.mainContainer }, bootstrapCommand(), { stdin: bootstrap });
  const forward = await cluster.forward(podName(hash), agentPort);
  const bare = createAgentClient({ host: '127.0.0.1', port: forward.port, instanceId });
  const healthy = () =>
    bare.health().then(
      () => true,
      () => false,
    );
  if (!(await poll(healthy, { everyMs: 10, forMs: 60_000 }))) throw new Error('the floor agent did not answer');
  const token = await bare.handshake({ nonce, clientKey: 'bench' });
  const client = createAgentClient({ host: '127.0.0.1', port: forward.port, token, instanceId });
  await client.ensureInstance({ id: instanceId, workspace_path: '/workspace' });
  const took = performance.now() - start;
  await forward.close();
  await cluster.remove('pods', podName(hash), { uid: pod.metadata?.uid ?? '' });
  await cluster.remove('persistentvolumeclaims', claimName(hash), { uid: claim.metadata?.uid ?? '' });
  return took;
}
