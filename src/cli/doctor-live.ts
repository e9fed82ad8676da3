import { randomBytes } from 'node:crypto';
import type { V1Pod } from '@kubernetes/client-node';
import { bootstrapExec } from '../agent/bootstrap-exec.ts';
import { monotonicMs, poll, sleep } from '../clock.ts';
import { asWindlassError, WindlassError } from '../errors.ts';
import { openChannel, transportsOf } from '../jobs/agent-channel.ts';
import { ensureAgent } from '../jobs/agent-config.ts';
import { agentClient } from '../jobs/agent-instance.ts';
import { uploadAgent } from '../jobs/upload-agent.ts';
import { isAmbiguous } from '../kubernetes/api-error.ts';
import { composeClaim, composePod } from '../kubernetes/compose.ts';
import { adoptable } from '../kubernetes/ownership.ts';
import { judgePod } from '../kubernetes/pod-failure.ts';
import type { Forward, KindMap } from '../kubernetes/port.ts';
import type { Perform } from './doctor.ts';
import type { Trial } from './doctor-profile.ts';

type Kind = 'pods' | 'persistentvolumeclaims';
/** What was made, newest last: kind, name, UID. */
type Made = { readonly kind: Kind; readonly name: string; readonly uid: string }[];

/** At most so many seconds a phase, whatever the profile allows a launch: somebody sits and waits. */
const patience = { storage: 60, schedule: 60, pull: 300, start: 60 };
const goneWithinMs = 60_000;
const healthyWithinMs = 20_000;

interface LiveOptions {
  readonly perform: Perform;
  /** What it waits for, in words. */
  readonly say: (text: string) => void;
  readonly signal: AbortSignal;
}

/** A disposable instance, as a launch makes it: runs, is talked to, and is removed by UID, whatever happens in between. */
export async function tryLive(trial: Trial, { perform, say, signal }: LiveOptions): Promise<void> {
  const { at } = trial;
  const made: Made = [];
  try {
    const runs = await perform(`live.pod.${at}`, () => runPod(trial, made, say, signal));
    if (!runs) return;
    const agent = trial.input.agent !== undefined;
    const streams = await perform(`live.exec.${at}`, () => (agent ? startAgent(trial, signal) : tryExec(trial, signal)));
    if (!streams || !agent) return;
    await perform(`live.connect.${at}`, () => reachAgent(trial, signal));
    await perform(`live.egress.${at}`, () => tryEgress(trial, signal));
  } finally {
    await perform(`live.removed.${at}`, () => removeAll(trial, made));
  }
}

const podTarget = ({ input }: Trial) => ({ pod: `windlass-${input.identity.hash}`, container: input.profile.mainContainer });

async function runPod(trial: Trial, made: Made, say: LiveOptions['say'], signal: AbortSignal): Promise<string> {
  const { cluster, input, loaded } = trial;
  await ensureAgent({ cluster, config: loaded.config, profile: input.profile }, 'once');
  if (input.profile.workspace.mode === 'managed_pvc') await make(trial, made, 'persistentvolumeclaims', composeClaim(input));
  const pod = await make(trial, made, 'pods', composePod(input));
  const started = monotonicMs();
  let said = '';
  for (;;) {
    signal.throwIfAborted();
    const verdict = await lookAt(trial, pod.metadata?.uid ?? '');
    if (verdict.kind === 'running') return `runs after ${Math.round((monotonicMs() - started) / 1000)} s`;
    if (verdict.kind === 'failed') throw new WindlassError(verdict.code, verdict.message, { evidence: verdict.evidence });
    if (verdict.message !== said) say(`${trial.at}: ${verdict.reason}: ${verdict.message}`);
    said = verdict.message;
    await sleep(500, signal);
  }
}

async function lookAt({ cluster, input }: Trial, uid: string) {
  const [pod, events] = await Promise.all([cluster.read('pods', `windlass-${input.identity.hash}`), cluster.events(uid)]);
  if (pod?.metadata?.uid !== uid) throw new WindlassError('pod_disrupted', 'The Pod was removed by somebody else.');
  const { budgets, mainContainer } = input.profile;
  const atMost = (phase: keyof typeof patience) => Math.min(budgets[phase], patience[phase]);
  const bounded = {
    ...budgets,
    storage: atMost('storage'),
    schedule: atMost('schedule'),
    pull: atMost('pull'),
    start: atMost('start'),
  };
  return judgePod({ pod, mainContainer, events, now: Date.now() + cluster.clockSkewMs(), budgets: bounded });
}

/** A create whose answer is lost may have been done: what carries our nonce is ours to remove (I5). */
async function make<K extends Kind>({ cluster, input }: Trial, made: Made, kind: K, object: KindMap[K]): Promise<KindMap[K]> {
  const name = object.metadata?.name ?? '';
  const note = (found: KindMap[K]) => {
    made.push({ kind, name, uid: found.metadata?.uid ?? '' });
    return found;
  };
  try {
    return note(await cluster.create(kind, object, { instance: name }));
  } catch (error) {
    if (!isAmbiguous(error)) throw error;
    const found = await cluster.read(kind, name);
    const ours = adoptable(found?.metadata ?? {}, { nonce: input.nonce });
    if (found === undefined || ours === 'foreign') throw error;
    return note(found);
  }
}

async function startAgent(trial: Trial, signal: AbortSignal): Promise<string> {
  const { cluster, input, loaded } = trial;
  const { profile, identity } = input;
  const target = podTarget(trial);
  if (profile.agent.delivery === 'upload')
    await uploadAgent({ cluster, profile, identity, dir: loaded.dir }, { pod: target.pod, signal });
  const nonce = randomBytes(32).toString('hex');
  const exec = bootstrapExec(profile.agent.protocol, { nonce, runtimeEnv: {}, authEnv: {}, secretNames: [] });
  const options = { stdin: exec.stdin, signal, timeoutMs: 60_000 };
  const { exitCode, stdout, stderr } = await cluster.exec(target, exec.command, options);
  if (exitCode === 0 && stdout.includes(exec.proof)) return 'commands run, stdin arrives whole';
  throw new WindlassError('exec_lost', `Setting the agent up ended with exit code ${exitCode} and no proof of success.`, {
    evidence: { stderr: stderr.slice(-2000) },
  });
}

/** Of an image that may hold nothing but its program: that the stream carries an exit code is enough. */
async function tryExec(trial: Trial, signal: AbortSignal): Promise<string> {
  const { exitCode } = await trial.cluster.exec(podTarget(trial), ['/bin/sh', '-c', ':'], { signal, timeoutMs: 30_000 });
  return exitCode === 0 ? 'commands run' : `streams work; the image has no shell (exit code ${exitCode})`;
}

/** The ways of the profile, best first, as a launch tries them. */
async function reachAgent(trial: Trial, signal: AbortSignal): Promise<string> {
  const { pod: name, container } = podTarget(trial);
  const ip = (await trial.cluster.read('pods', name))?.status?.podIP ?? '';
  const place = { cluster: trial.cluster, name, container, ip };
  const failed: string[] = [];
  let last: unknown;
  for (const transport of transportsOf(trial.input.profile, undefined, undefined)) {
    try {
      await answersBy(await openChannel(place, transport, { signal }), trial, signal);
      return `the agent answers by ${transport}${failed.length > 0 ? `, not by ${failed.join('; ')}` : ''}`;
    } catch (error) {
      signal.throwIfAborted();
      last = error;
      failed.push(`${transport} (${asWindlassError(error).message})`);
    }
  }
  throw asWindlassError(last);
}

async function answersBy(channel: Forward, trial: Trial, signal: AbortSignal): Promise<void> {
  const { port, trouble } = channel;
  const { identity, profile } = trial.input;
  const client = agentClient(identity, profile.agent.protocol, { port, trouble });
  let last: unknown;
  try {
    const healthy = () =>
      client.health(AbortSignal.any([signal, AbortSignal.timeout(5000)])).then(
        () => true,
        (error: unknown) => {
          last = error;
          return false;
        },
      );
    if (!(await poll(healthy, { everyMs: 200, forMs: healthyWithinMs, signal }))) throw asWindlassError(last);
  } finally {
    await channel.close();
  }
}

/** Prints `open`, `closed` or `unknown`: whether the Pod reaches the API server, which `none` and `internet` both close. */
const knock = `
const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = require('node:process').env;
const say = (text) => { console.log(text); process.exit(0); };
if (!host || !port) say('unknown');
require('net').connect(Number(port), host).on('connect', () => say('open')).on('error', () => say('closed'));
setTimeout(() => say('closed'), 5000);
`;

async function tryEgress(trial: Trial, signal: AbortSignal): Promise<string> {
  const { egress } = trial.input.profile;
  if (egress === 'custom') return 'custom: what it reaches is up to your own policies';
  const command = ['/bin/sh', '-c', 'PATH="$PATH:$WINDLASS_OPT_DIR/bin"; exec node -e "$0"', knock];
  const { stdout, stderr, exitCode } = await trial.cluster.exec(podTarget(trial), command, { signal, timeoutMs: 30_000 });
  const found = stdout.trim();
  if (found === 'closed') return `${egress}: the Pod does not reach the API server of the cluster`;
  if (found === 'unknown') return `${egress}: the Pod knows no address of the cluster to try`;
  if (found !== 'open')
    throw new WindlassError('exec_lost', `The test of egress ended with exit code ${exitCode}.`, { evidence: { stderr } });
  throw new WindlassError(
    'config_invalid',
    `Instances reach the API server of the cluster, although egress is ${egress}: no NetworkPolicy keeps them from it.`,
    {
      hint: 'Apply deploy/base/network-policies.yaml to the namespace; the network plugin of the cluster must enforce policies.',
    },
  );
}

/** The Pod first, and the claim only when that is really gone; by UID, on a time of its own: Ctrl-C ends the trial, not this. */
async function removeAll({ cluster }: Trial, made: Made): Promise<string> {
  for (const { kind, name, uid } of [...made].reverse()) {
    await cluster.remove(kind, name, { uid });
    const gone = async () => (await cluster.read<Kind>(kind, name))?.metadata?.uid !== uid;
    if (await poll(gone, { everyMs: 200, forMs: goneWithinMs })) continue;
    const object = (await cluster.read<Kind>(kind, name)) as V1Pod | undefined;
    const held = object?.metadata?.finalizers?.join(', ');
    throw new WindlassError('object_deleting', `${kind}/${name} is still being deleted${held ? ` (held by ${held})` : ''}.`, {
      hint: 'The orphans sweep tells when it stays.',
    });
  }
  return made.length === 0 ? 'nothing was made' : made.map(({ kind, name }) => `${kind}/${name}`).join(', ');
}
