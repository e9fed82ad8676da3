import type { V1Pod } from '@kubernetes/client-node';
import { expect, it } from 'vitest';
import { explainLoss } from '../../../src/cli/exec-loss.ts';
import type { OpenPod } from '../../../src/cli/pod.ts';
import { WindlassError } from '../../../src/errors.ts';

const pod = (containerID: string, state: object, more: object = {}): V1Pod => ({
  metadata: { name: 'windlass-x', uid: 'u1' },
  spec: { containers: [{ name: 'agent', resources: { limits: { memory: '160Mi' } } }] },
  status: {
    containerStatuses: [{ name: 'agent', image: '', imageID: '', ready: true, restartCount: 0, containerID, state, ...more }],
  },
});
const oom = { terminated: { exitCode: 137, reason: 'OOMKilled' } };

/** What the API server answers, one look after the other; the last answer stays. */
function opened(answers: readonly (V1Pod | undefined)[]) {
  let looks = 0;
  const cluster = { read: async () => answers[Math.min(looks++, answers.length - 1)] };
  const record = { pod: { uid: 'u1', main: { name: 'agent', id: 'containerd://1' } } };
  return { record, cluster, name: 'windlass-x', mainContainer: 'agent', delivery: 'config_map' } as unknown as OpenPod;
}
const lost = () => new WindlassError('exec_lost', 'cut off');
const running = pod('containerd://1', { running: {} });

it.each<[string, (V1Pod | undefined)[], string, RegExp]>([
  ['a container that ran out of memory', [pod('containerd://1', oom)], 'oom_killed', /limit of 160Mi/],
  ['the same, told only a moment later', [running, pod('containerd://1', oom)], 'oom_killed', /limit of 160Mi/],
  ['the same, started anew meanwhile', [pod('containerd://2', { running: {} }, { lastState: oom })], 'oom_killed', /160Mi/],
  ['a Pod that was taken away', [undefined], 'pod_disrupted', /taken away/],
  ['a Pod in the place of another', [{ metadata: { name: 'windlass-x', uid: 'u2' } }], 'pod_disrupted', /taken away/],
  ['a container that goes on', [running], 'exec_lost', /cut off/],
])('C51 a command that was cut off by %s', async (_what, answers, code, words) => {
  expect(await explainLoss(opened(answers), lost())).toMatchObject({ code, message: expect.stringMatching(words) });
});

it('an error that is no lost connection is given back as it is, and so is a loss that nobody can explain', async () => {
  const other = new WindlassError('handshake_failed');
  expect(await explainLoss(opened([undefined]), other)).toBe(other);
  const broken = opened([]);
  const cluster = { read: () => Promise.reject(new WindlassError('cluster_unreachable')) };
  const error = lost();
  expect(await explainLoss({ ...broken, cluster } as unknown as OpenPod, error)).toBe(error);
});
