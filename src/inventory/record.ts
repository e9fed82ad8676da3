import { WindlassError } from '../errors.ts';
import type { InstanceRecord, Intent, State } from './types.ts';
import { states } from './types.ts';

type Kind = 'text' | 'number' | 'json';

/** How each field is kept in the record's hash. A field that is not here was written by a newer Windlass. */
const kinds: Readonly<Record<keyof InstanceRecord, Kind>> = {
  schema: 'number',
  instanceId: 'text',
  hash: 'text',
  owner: 'text',
  state: 'text',
  before: 'text',
  intent: 'text',
  generation: 'number',
  run: 'number',
  removeUpTo: 'number',
  removeRun: 'number',
  removal: 'json',
  fence: 'text',
  request: 'json',
  cluster: 'text',
  namespace: 'text',
  profile: 'text',
  app: 'text',
  snapshot: 'text',
  hashes: 'json',
  creates: 'json',
  pod: 'json',
  workspace: 'json',
  agent: 'json',
  restartCount: 'number',
  rebuilds: 'number',
  exitCode: 'json',
  stages: 'json',
  failure: 'json',
  attemptsLeft: 'number',
  crashes: 'number',
  limits: 'json',
  lifetime: 'json',
  createdAt: 'number',
  readyAt: 'number',
  updatedAt: 'number',
  version: 'number',
  deadlineAt: 'number',
  expiresAt: 'number',
  recovered: 'json',
  missing: 'json',
};

/** Written only by a recovery, or not by earlier versions; absent in other records. */
const optional: readonly string[] = ['recovered', 'missing', 'version', 'removeRun'] satisfies (keyof InstanceRecord)[];

/** Only scripts decide on these: a `set` that names one would break what they guard. */
const guarded = new Set<string>([
  'schema',
  'instanceId',
  'hash',
  'owner',
  'state',
  'intent',
  'generation',
  'run',
  'removeUpTo',
  'removeRun',
  'removal',
  'fence',
  'request',
  'createdAt',
  'updatedAt',
  'version',
] satisfies (keyof InstanceRecord)[]);

const intents: readonly string[] = ['present', 'suspended', 'absent'] satisfies Intent[];
const schema = 1;

/** Fields as they go into the hash. */
export function encodeFields(fields: Partial<InstanceRecord>): Record<string, string> {
  const encoded: Record<string, string> = {};
  for (const [name, value] of Object.entries(fields)) {
    const kind = kinds[name as keyof InstanceRecord];
    if (kind === undefined) throw new WindlassError('invariant_broken', `A record has no field ${name}.`);
    encoded[name] = encode(name, kind, value);
  }
  return encoded;
}

/** A handler's `set`: everything but what the scripts guard. */
export function encodeSet(set: Partial<InstanceRecord> | undefined): Record<string, string> {
  const refused = Object.keys(set ?? {}).filter((name) => guarded.has(name));
  if (refused.length > 0) throw new WindlassError('invariant_broken', `A handler may not set ${refused.join(', ')} of a record.`);
  return encodeFields(set ?? {});
}

function encode(name: string, kind: Kind, value: unknown): string {
  if (kind === 'json' && value !== undefined) return JSON.stringify(value);
  if (kind === 'number' && Number.isSafeInteger(value)) return String(value);
  if (kind === 'text' && typeof value === 'string') return value;
  throw new WindlassError('invariant_broken', `The field ${name} of a record may not be ${String(value)}.`);
}

/** The hash as a record; undefined when there is none. Throws `record_newer` for what this version does not understand. */
export function decodeRecord(fields: Readonly<Record<string, string>>): InstanceRecord | undefined {
  if (Object.keys(fields).length === 0) return undefined;
  checkKnown(fields);
  const decoded: Record<string, unknown> = {};
  for (const [name, kind] of Object.entries(kinds)) {
    const text = fields[name];
    if (text === undefined && optional.includes(name)) continue;
    if (text === undefined) throw new WindlassError('invariant_broken', `The record of ${label(fields)} lacks ${name}.`);
    decoded[name] = kind === 'text' ? text : kind === 'number' ? Number(text) : JSON.parse(text);
  }
  return decoded as unknown as InstanceRecord;
}

/** Without these it cannot be told whether this version understands a record. */
const vital = ['schema', 'instanceId', 'state', 'intent'] as const satisfies (keyof InstanceRecord)[];

/** The argument of read-fields.lua that asks for these fields: numbers are JSON as they are kept. */
export const askFor = (fields: readonly (keyof InstanceRecord)[]): string =>
  [...new Set([...vital, ...fields])].map((name) => `${kinds[name] === 'text' ? 't' : 'r'}:${name}`).join(' ');

/** The answer of read-fields.lua; undefined where there is no record. Throws as `decodeRecord` does. */
export function decodeParts<K extends keyof InstanceRecord>(
  fields: readonly K[],
  answer: string,
): (Pick<InstanceRecord, K> | undefined)[] {
  const needed = fields.filter((name) => !optional.includes(name));
  return parseParts(answer).map((part) => {
    if (part === null) return undefined;
    checkKnown(part);
    const lacking = needed.find((name) => !Object.hasOwn(part, name));
    if (lacking !== undefined)
      throw new WindlassError('invariant_broken', `The record of ${label(part)} lacks ${String(lacking)}.`);
    return part as unknown as Pick<InstanceRecord, K>;
  });
}

function parseParts(answer: string): readonly (Readonly<Record<string, unknown>> | null)[] {
  try {
    return JSON.parse(answer);
  } catch (error) {
    throw new WindlassError('invariant_broken', 'Some record holds a field that is no JSON.', { cause: error });
  }
}

function checkKnown(fields: Readonly<Record<string, unknown>>): void {
  const unknown = Object.keys(fields).some((name) => !name.startsWith('_') && !(name in kinds));
  const known = states.includes(fields.state as State) && intents.includes(String(fields.intent));
  if (Number(fields.schema) <= schema && known && !unknown) return;
  throw new WindlassError('record_newer', `The record of ${label(fields)} was written by a newer Windlass.`);
}

const label = (fields: Readonly<Record<string, unknown>>) => `instance ${fields.instanceId ?? fields.hash ?? '(unnamed)'}`;

/** A record's fields before the first generation is given to it by the script. */
export function freshFields(identity: { instanceId: string; hash: string; owner: string }): Record<string, string> {
  return encodeFields({
    ...identity,
    schema,
    state: 'requested',
    before: 'requested',
    intent: 'present',
    removeUpTo: 0,
    removal: null,
    namespace: '',
    snapshot: '',
    hashes: null,
    creates: {},
    pod: null,
    workspace: null,
    agent: null,
    restartCount: 0,
    rebuilds: 0,
    exitCode: null,
    stages: [],
    failure: null,
    crashes: 0,
    readyAt: 0,
    updatedAt: 0,
    expiresAt: 0,
  });
}
