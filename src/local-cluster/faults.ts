import { readFileSync, statSync, unwatchFile, watchFile } from 'node:fs';
import { parse as parseYaml } from 'yaml';
import { z } from 'zod';

const ms = z.number().int().nonnegative();
const operation = z.looseObject({ op: z.string(), path: z.string() });

const faultSchema = z.union([
  z.enum([
    'drop_before',
    'commit_then_drop',
    'watch_silence',
    'watch_close',
    'watch_gone',
    'exec_no_status',
    'exec_v4_only',
    'forward_refuse',
    'forward_reset',
  ]),
  z.strictObject({
    error: z.strictObject({
      code: z.number().int().min(400).max(599),
      reason: z.string().default(''),
      message: z.string().default('injected by a fault rule'),
      retryAfter: z.number().nonnegative().optional(),
    }),
  }),
  z.strictObject({ delayMs: ms }),
  z.strictObject({ delayThenCommitMs: ms }),
  z.strictObject({ mutate: z.array(operation) }),
  z.strictObject({ deny: z.string() }),
  z.strictObject({ webhookDown: z.literal(true) }),
  z.strictObject({ attachMs: ms }),
  z.strictObject({ exec_drop_after: ms }),
  z.strictObject({ hide_from_list_ms: ms }),
  z.strictObject({ clock_skew_ms: z.number().int() }),
]);

const ruleSchema = z.strictObject({
  verb: z.string().default('*'),
  resource: z.string().default('*'),
  subresource: z.string().optional(),
  name: z.string().optional(),
  /** Fires from the nth matching request on; once, unless `times` says otherwise. */
  nth: z.number().int().positive().optional(),
  times: z.number().int().positive().optional(),
  rate: z.number().min(0).max(1).optional(),
  seed: z.number().int().optional(),
  fault: faultSchema,
});

const fileSchema = z.strictObject({ rules: z.array(ruleSchema) });

export type Fault = z.infer<typeof faultSchema>;
type Rule = z.infer<typeof ruleSchema>;

/** What a rule is matched against. */
export interface FaultRequest {
  readonly verb: string;
  readonly resource: string;
  readonly subresource: string;
  readonly name: string;
}

export interface Faults {
  /** The faults that this request meets, in the order of the rules. Counts it for every rule that matches. */
  match(request: FaultRequest): Fault[];
  /** The clock is off by this many ms while such a rule is there. */
  skewMs(): number;
  /** Called after the file was read anew. */
  onChange(listener: () => void): () => void;
  close(): void;
}

interface LiveRule {
  readonly rule: Rule;
  readonly text: string;
  readonly random: () => number;
  seen: number;
}

/** A small seeded generator (mulberry32), so that a `rate` fires on the same requests in every run. */
function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let value = state;
    value = Math.imul(value ^ (value >>> 15), value | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return ((value ^ (value >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const streaming = new Set(['exec', 'attach', 'portforward']);

/** A rule without subresource means the object itself; streams are opened by GET or POST, so either verb names them. */
function concerns(rule: Rule, request: FaultRequest): boolean {
  const opens = streaming.has(request.subresource) && ['get', 'create', 'connect', request.subresource].includes(rule.verb);
  return (
    (rule.verb === '*' || rule.verb === request.verb || opens) &&
    (rule.resource === '*' || rule.resource === request.resource) &&
    (rule.subresource ?? '') === request.subresource &&
    (rule.name === undefined || rule.name === request.name)
  );
}

function fires(live: LiveRule): boolean {
  const { nth, times, rate } = live.rule;
  live.seen += 1;
  const from = nth ?? 1;
  const until = times === undefined ? (nth === undefined ? Number.POSITIVE_INFINITY : from) : from + times - 1;
  if (live.seen < from || live.seen > until) return false;
  return rate === undefined || live.random() < rate;
}

function read(file: string): Rule[] {
  return fileSchema.parse(parseYaml(readFileSync(file, 'utf8'))).rules;
}

/** Identity and time of the file's content; '' while it is not there. */
function stampOf(file: string): string {
  const stat = statSync(file, { throwIfNoEntry: false });
  return stat ? `${stat.ino}:${stat.size}:${stat.mtimeMs}` : '';
}

/**
 * The rules of a faults file. It is looked at before every request, so a change acts on the next one; a bad edit keeps
 * the rules as they were and says so. A rule that stays as it was keeps its count. Throws when the first reading fails.
 */
export function loadFaults(file: string | undefined, log: (message: string) => void): Faults {
  let live: LiveRule[] = [];
  let stamp = '';
  const listeners = new Set<() => void>();

  const adopt = (rules: readonly Rule[]): void => {
    const old = [...live];
    live = rules.map((rule) => {
      const text = JSON.stringify(rule);
      const at = old.findIndex((one) => one.text === text);
      return at >= 0 ? old.splice(at, 1)[0]! : { rule, text, random: seeded(rule.seed ?? 1), seen: 0 };
    });
  };
  const refresh = (): void => {
    const now = file ? stampOf(file) : '';
    if (!file || now === stamp) return;
    stamp = now;
    try {
      adopt(now ? read(file) : []);
    } catch (error) {
      log(`the faults file ${file} was not taken over, the old rules stay: ${error instanceof Error ? error.message : error}`);
      return;
    }
    for (const listener of listeners) listener();
  };

  if (file) {
    stamp = stampOf(file);
    adopt(read(file));
    // For watches that are already open: they make no request that would look at the file.
    watchFile(file, { interval: 200, persistent: false }, refresh);
  }
  return {
    match(request) {
      refresh();
      return live.filter((one) => concerns(one.rule, request) && fires(one)).map((one) => one.rule.fault);
    },
    skewMs() {
      refresh();
      for (const { rule } of live)
        if (typeof rule.fault === 'object' && 'clock_skew_ms' in rule.fault) return rule.fault.clock_skew_ms;
      return 0;
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close() {
      if (file) unwatchFile(file, refresh);
    },
  };
}
