import { randomBytes } from 'node:crypto';
import { bootstrapExec } from '../../agent/bootstrap-exec.ts';
import { poll } from '../../clock.ts';
import { asWindlassError, WindlassError } from '../../errors.ts';
import { prepares } from '../compose-input.ts';
import { judge, waitOutcome } from '../pod-judge.ts';
import { repositoryScript } from '../repository.ts';
import { checkpointOf, foundAsLeft } from '../resume.ts';
import type { Stage, StageContext } from '../stage.ts';
import { uploadAgent } from '../upload-agent.ts';

/** One exec hands the Pod everything that must not be in its spec; the start marker comes last (I17). */
export const bootstrap: Stage = {
  name: 'bootstrap',
  budget: (profile) => profile.budgets.bootstrap,

  async apply(context) {
    // The marker lies in the memory of the container's Pod: the same container still has it.
    if (foundAsLeft(context.record())) return { kind: 'done' };
    const before = await judge(context);
    if (before.kind === 'waiting' && before.reason !== 'preparing') return waitOutcome(context, before);
    if (checkpointOf(context.record(), 'bootstrap') !== 'bootstrapped') {
      if (context.profile.agent.delivery === 'upload') {
        context.lease.assertHeld();
        await uploadAgent(context, { pod: context.record().pod?.name ?? '', signal: context.stageSignal });
      }
      await deliver(context).catch((error: unknown) => endedMeanwhile(context, error));
    }
    if (!prepares(context.payload)) return { kind: 'done' };
    const verdict = await judge(context);
    return verdict.kind === 'running' && verdict.started ? { kind: 'done' } : waitOutcome(context, preparing(verdict));
  },
};

type Verdict = Awaited<ReturnType<typeof judge>>;

function preparing(verdict: Verdict): Extract<Verdict, { kind: 'waiting' }> {
  if (verdict.kind === 'waiting') return verdict;
  return { kind: 'waiting', reason: 'preparing', message: 'The prepare step is running.', missingAgent: false };
}

/** How long the end of a container may take to be seen after an exec into it broke off. */
const endSeenMs = 3000;

/**
 * The marker lets the prepare step begin, so one that fails at once ends the container while the exec that brought the marker
 * is still to report: what ended the container is the failure then, not the exec that went with it.
 */
async function endedMeanwhile(context: StageContext, error: unknown): Promise<never> {
  const lost = asWindlassError(error).code === 'exec_lost' && prepares(context.payload);
  const stillThere = async () => {
    await judge(context);
    return false;
  };
  if (lost) await poll(stillThere, { everyMs: 100, forMs: endSeenMs, signal: context.stageSignal });
  throw error;
}

async function deliver(context: StageContext): Promise<void> {
  const { record, payload, profile, cluster } = context;
  const hash = record().hash;
  const nonce = await agentNonce(context);
  const secretEnv = await openSealed(context);
  const input = {
    nonce,
    runtimeEnv: { ...payload.env, ...identityEnv(context) },
    authEnv: secretEnv,
    secretNames: Object.keys(secretEnv),
    ...(prepares(payload) ? { prepare: repositoryScript(payload.repository) + (payload.prepare ?? '') } : {}),
  };
  const target = { pod: record().pod?.name ?? '', container: profile.mainContainer };
  context.lease.assertHeld();
  const { command, stdin, proof } = bootstrapExec(profile.agent.protocol, input);
  const result = await cluster.exec(target, command, {
    stdin,
    signal: context.stageSignal,
    instance: hash,
    timeoutMs: 60_000,
  });
  // The exit code alone is no proof: a proxy may end the stream early and call it success (C58).
  if (result.exitCode !== 0 || !result.stdout.includes(proof)) {
    throw new WindlassError(
      'exec_lost',
      `Setting up the workspace ended with exit code ${result.exitCode} and no proof of success.`,
      {
        evidence: { exitCode: result.exitCode, stderr: result.stderr.slice(-2000) },
      },
    );
  }
  await context.save({}, 'bootstrapped');
}

/** Stored before the Pod learns it, so that a worker that takes over can still shake hands. */
async function agentNonce(context: StageContext): Promise<string> {
  const { hash } = context.record();
  const stored = (await context.inventory.secrets(hash)).agentNonce;
  if (stored !== undefined) return context.keyring.decrypt(stored, hash);
  const nonce = randomBytes(32).toString('hex');
  await context.save({ secrets: { agentNonce: await context.keyring.encrypt(nonce, hash) } });
  return nonce;
}

async function openSealed(context: StageContext): Promise<Record<string, string>> {
  const { hash, owner, instanceId } = context.record();
  const sealed = (await context.inventory.secrets(hash)).sealedEnv;
  return sealed === undefined ? {} : context.keyring.open(sealed, { owner, instanceId });
}

function identityEnv(context: StageContext): Record<string, string> {
  const { instanceId, owner } = context.record();
  return { WINDLASS_INSTANCE_ID: instanceId, WINDLASS_OWNER: owner };
}
