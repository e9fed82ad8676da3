import { monotonicMs } from '../clock.ts';
import { WindlassError } from '../errors.ts';
import { encodeEvents } from './events.ts';
import { type LeaseGrant, type LeaseKeeper, leaseMs } from './lease.ts';
import type { BeginAnswer, BeginOptions, Inventory, Lease, RecoveredRecord, WriteOptions } from './port.ts';
import { decodeRecord, encodeFields, encodeSet, freshFields } from './record.ts';
import type { RunScript } from './scripts.ts';
import type { InstanceRecord } from './types.ts';
import { memberOf, ticketOf } from './waiting.ts';

interface Store {
  readonly run: RunScript;
  readonly keeper: LeaseKeeper;
  readonly holder: string;
  readonly hashOf: (instanceId: string) => string;
}

type Writes = Pick<Inventory, 'begin' | 'tryLease' | 'requeue' | 'recover' | 'write' | 'finishRemoval'>;

/** What a handler does to its record: take it, write it step by step, end it. Each is one script. */
export function createStore(store: Store): Writes {
  return {
    begin: (instanceId, options) => begin(store, instanceId, options),
    async tryLease(hash) {
      const askedAt = monotonicMs();
      const [answer] = await store.run('try-lease', hash, { hash, holder: store.holder, ttl: String(leaseMs) });
      if (answer.kind !== 'ok') return undefined;
      const { fence, instanceId, generation, run } = answer as unknown as Omit<LeaseGrant, 'hash' | 'verb'>;
      return store.keeper.keep({ hash, instanceId, fence, verb: 'sweep', generation, run }, askedAt);
    },
    async requeue(lease, fresh) {
      const { hash, fence } = store.keeper.grantOf(lease);
      const [answer] = await store.run('requeue', lease.instanceId, { hash, fence, fresh: fresh ? '1' : '' });
      return answer.kind === 'ok' ? { jobId: answer.jobId as string } : undefined;
    },
    recover: (lease, record) => recover(store, lease, record),
    async write(lease, options) {
      const [answer] = await store.run('write', lease.instanceId, writeArgs(store.keeper.grantOf(lease), options));
      if (options.release) store.keeper.settle(lease);
      return ticketOf(answer.numbers);
    },
    async finishRemoval(lease, outcome) {
      const { hash, fence } = store.keeper.grantOf(lease);
      const args = {
        hash,
        fence,
        generation: String(outcome.generation),
        suspended: outcome.suspended ? '1' : '',
        ...expiry(outcome.expiresInMs),
      };
      const [answer] = await store.run('finish-removal', lease.instanceId, args);
      store.keeper.settle(lease);
      return answer.kind as 'gone' | 'suspended' | 'requested';
    },
  };
}

const expiry = (ms: number | undefined) => (ms === undefined ? {} : { expiresIn: String(ms) });

async function recover(store: Store, lease: Lease, record: RecoveredRecord): Promise<'recovered' | 'known'> {
  const { hash, fence } = store.keeper.grantOf(lease);
  const { instanceId, owner } = record;
  const [answer] = await store.run('recover', instanceId, {
    hash,
    fence,
    fields: { ...freshFields({ instanceId, hash, owner }), ...encodeFields(record.fields) },
    secrets: record.secrets,
    events: encodeEvents(record.events),
    remove: record.fields.state === 'removing' ? '1' : '',
  });
  return answer.kind as 'recovered' | 'known';
}

async function begin(store: Store, instanceId: string, options: BeginOptions): Promise<BeginAnswer> {
  const hash = store.hashOf(instanceId);
  const generation = String(options.generation);
  const run = String(options.run);
  const askedAt = monotonicMs();
  const [answer, fields] = await store.run('begin', instanceId, {
    hash,
    verb: options.verb,
    generation,
    run,
    holder: store.holder,
    job: options.job ?? '',
    ...(options.seen === undefined ? {} : { seen: String(options.seen) }),
    ttl: String(leaseMs),
    set: encodeSet(options.set),
    events: encodeEvents(options.events),
    ...(options.caps === undefined ? {} : { caps: numbersAsText(options.caps) }),
  });
  const record = decodeRecord(fields);
  switch (answer.kind) {
    case 'ok': {
      const grant: LeaseGrant = { hash, instanceId, fence: answer.fence as string, verb: options.verb, generation, run };
      return { kind: 'ok', lease: store.keeper.keep(grant, askedAt), record: present(record) };
    }
    case 'settled':
      return { kind: 'settled', record: present(record) };
    case 'wait':
      return { kind: 'wait', reason: answer.reason as Extract<BeginAnswer, { kind: 'wait' }>['reason'] };
    default:
      return { kind: answer.kind as 'superseded' | 'missing' | 'changed' };
  }
}

function present(record: InstanceRecord | undefined): InstanceRecord {
  if (record === undefined) throw new WindlassError('invariant_broken', 'A script answered for a record that is not there.');
  return record;
}

function writeArgs(grant: LeaseGrant, options: WriteOptions): Record<string, unknown> {
  const { hash, fence, verb, generation, run } = grant;
  const secrets = Object.entries(options.secrets ?? {}).map(([name, text]) => [name, text ?? '']);
  return {
    hash,
    fence,
    verb,
    generation,
    run,
    ...(options.state === undefined ? {} : { state: options.state }),
    set: encodeSet(options.set),
    events: encodeEvents(options.events),
    secrets: Object.fromEntries(secrets),
    release: options.release ? '1' : '',
    ...(options.waitOn === undefined ? {} : { wait: { member: memberOf(options.waitOn.job), keys: options.waitOn.keys } }),
    wake: options.wake ?? [],
  };
}

const numbersAsText = (numbers: object) => Object.fromEntries(Object.entries(numbers).map(([name, n]) => [name, String(n)]));
