import type { InstanceRecord, State } from '../../inventory/types.ts';
import type { SweepEntry } from '../context.ts';
import { ahead } from './ahead.ts';
import { ageSeconds, type Pass } from './pass.ts';

const pageSize = 500;

/** These fields of the records of this pass's cluster in these states, page by page; counted as looked at. */
export async function* recordPages<K extends keyof InstanceRecord>(
  pass: Pass,
  states: readonly State[],
  fields: readonly K[],
): AsyncGenerator<Pick<InstanceRecord, K>[]> {
  for await (const page of ahead(listPages(pass, states, fields))) {
    const mine = page.filter((record) => record.cluster === pass.cluster.name);
    pass.looked(mine.length);
    yield mine;
  }
}

async function* listPages<K extends keyof InstanceRecord>(
  pass: Pass,
  states: readonly State[],
  fields: readonly K[],
): AsyncGenerator<readonly Pick<InstanceRecord, K | 'cluster'>[]> {
  let cursor: string | undefined;
  do {
    const asked = { states, limit: pageSize, ...(cursor === undefined ? {} : { cursor }) };
    const page = await pass.inventory.listFields([...fields, 'cluster'], asked);
    yield page.items;
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
}

/** A report's line about a record. Its age is the time since it was last written, by Redis' clock (I28). */
export function aboutRecord(
  record: Pick<InstanceRecord, 'instanceId' | 'pod' | 'updatedAt'>,
  now: number,
): Omit<SweepEntry, 'rule' | 'verdict' | 'evidence'> {
  const age = ageSeconds(record.updatedAt, now);
  return { kind: 'record', name: record.instanceId, uid: record.pod?.uid ?? '', ageSeconds: age, action: 'none' };
}

/** Asks for a removal of exactly what was judged; the queue hears of it like of any other request. */
export async function requestRemoval(
  pass: Pass,
  record: InstanceRecord,
  entry: SweepEntry,
  options: { readonly keepWorkspace: boolean; readonly reason: string; readonly event?: string },
): Promise<SweepEntry> {
  const { instanceId } = record;
  const { keepWorkspace, reason } = options;
  const answer = await pass.inventory.intendSweptRemoval({
    instanceId,
    intent: keepWorkspace ? 'suspended' : 'absent',
    payload: { version: 1, instanceId, reason, ...(keepWorkspace ? { keepWorkspace } : {}) },
    expected: { generation: record.generation, expiresAt: record.expiresAt },
    ...(options.event === undefined ? {} : { events: [{ type: options.event, rule: entry.rule, keepWorkspace }] }),
  });
  if (answer.kind === 'missing' || answer.kind === 'gone') return { ...entry, action: 'gone' };
  if (answer.kind === 'changed') return { ...entry, action: 'changed' };
  return { ...entry, action: 'done', evidence: { ...entry.evidence, jobId: answer.job.jobId } };
}
