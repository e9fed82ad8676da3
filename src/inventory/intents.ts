import { encodeEvents } from './events.ts';
import type {
  Extension,
  Inventory,
  LaunchAnswer,
  LaunchIntent,
  PendingJob,
  RemovalAnswer,
  RemovalIntent,
  SweptRemoval,
} from './port.ts';
import { encodeFields, freshFields } from './record.ts';
import type { RunScript, ScriptAnswer } from './scripts.ts';
import type { State } from './types.ts';

interface Intents {
  readonly run: RunScript;
  readonly hashOf: (instanceId: string) => string;
  /** Resolves when as many replicas have the write as the configuration asks for. */
  readonly confirm: () => Promise<void>;
}

/** The way in: what is wanted is stored, together with the job that will do it, before the queue hears of it. */
export function createIntents(
  intents: Intents,
): Pick<Inventory, 'intendLaunch' | 'intendAgain' | 'intendRemoval' | 'intendSweptRemoval' | 'extend'> {
  const removal = async (intent: RemovalIntent, more: Record<string, unknown>) => {
    const hash = intents.hashOf(intent.instanceId);
    const [answer] = await intents.run('removal-intent', intent.instanceId, { ...removalArgs(hash, intent), ...more });
    await intents.confirm();
    if (answer.kind === 'missing' || answer.kind === 'gone' || answer.kind === 'changed') return { kind: answer.kind } as const;
    return accepted('teardown', hash, intent.instanceId, answer) as RemovalAnswer;
  };
  const launch = async (intent: LaunchIntent, seen: string) => {
    const hash = intents.hashOf(intent.instanceId);
    const [answer] = await intents.run('launch-intent', intent.instanceId, { ...launchArgs(hash, intent), seen });
    await intents.confirm();
    if (answer.kind === 'conflict' || answer.kind === 'taken' || answer.kind === 'overtaken')
      return { kind: answer.kind } as const;
    return accepted('launch', hash, intent.instanceId, answer) as LaunchAnswer;
  };
  return {
    intendLaunch: async (intent) => (await launch(intent, '')) as LaunchAnswer,
    intendAgain: ({ seen, ...intent }) => launch(intent, String(seen)),
    intendRemoval: async (intent) => (await removal(intent, {})) as RemovalAnswer,
    intendSweptRemoval: (intent) => removal(intent, sweptArgs(intent)),
    extend: (extension) => extend(intents, extension),
  };
}

function launchArgs(hash: string, intent: LaunchIntent): Record<string, unknown> {
  const { instanceId, owner, payload, requestHash, cluster, profile, app, limits, lifetime, attempts } = intent;
  return {
    hash,
    instanceId,
    owner,
    requestHash,
    fresh: freshFields({ instanceId, hash, owner }),
    request: encodeFields({ request: { payload, requestHash }, limits, lifetime, attemptsLeft: attempts }),
    placement: { cluster, profile, app },
    // As text, since it is kept in the record until the removal that is before it has ended.
    next: JSON.stringify({ cluster, profile, app }),
    sealedEnv: intent.sealedEnv,
    deadlineMs: String(intent.deadlineSeconds * 1000),
    class: typeof payload.priority === 'string' ? payload.priority : 'normal',
    reconnect: intent.reconnect ? '1' : '',
    redrive: intent.redrive === undefined ? '' : `${intent.redrive.generation}-${intent.redrive.run}`,
    rawJobId: intent.rawJobId ?? '',
  };
}

const removalArgs = (hash: string, intent: RemovalIntent): Record<string, unknown> => ({
  hash,
  instanceId: intent.instanceId,
  ...(intent.owner === undefined ? {} : { owner: intent.owner }),
  intent: intent.intent,
  removal: JSON.stringify(intent.payload),
  rawJobId: intent.rawJobId ?? '',
});

const sweptArgs = ({ expected, events }: SweptRemoval): Record<string, unknown> => ({
  expected: { generation: String(expected.generation), expiresAt: String(expected.expiresAt) },
  events: encodeEvents(events),
});

async function extend(
  intents: Intents,
  { instanceId, owner, by, longest, suspended }: Extension,
): ReturnType<Inventory['extend']> {
  const times = { by: String(by), longest: String(longest), suspended: String(suspended) };
  const args = { hash: intents.hashOf(instanceId), ...(owner === undefined ? {} : { owner }), ...times };
  const [answer] = await intents.run('extend', instanceId, args);
  if (answer.kind === 'ok') return { kind: 'ok', expiresAt: Number(answer.expiresAt), clamped: answer.clamped === '1' };
  if (answer.kind === 'unfit') return { kind: 'unfit', state: answer.state as State };
  return { kind: answer.kind as 'missing' | 'gone' };
}

function accepted(verb: 'launch' | 'teardown', hash: string, instanceId: string, answer: ScriptAnswer) {
  const { generation, run, priority } = answer as unknown as { generation: string; run: string; priority: string };
  return {
    kind: answer.kind,
    generation: Number(generation),
    run: Number(run),
    state: answer.state as State,
    job: jobOf(`${verb}-${hash}-${generation}-${run}`, { verb, instanceId, generation, run, priority }),
  };
}

interface PendingEntry {
  readonly verb: 'launch' | 'teardown';
  readonly instanceId: string;
  readonly generation: string;
  readonly run: string;
  readonly priority: string;
}

/** The queue entry of a request. Its data is a reference only: the request itself is in the record. */
export function jobOf(jobId: string, entry: PendingEntry): PendingJob {
  return {
    queue: entry.verb,
    jobId,
    name: entry.verb,
    data: { version: 1, instanceId: entry.instanceId, generation: Number(entry.generation), run: Number(entry.run) },
    priority: Number(entry.priority),
  };
}
