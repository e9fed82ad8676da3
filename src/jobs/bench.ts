import type { BeginAnswer, Lease, WaitTicket, WriteOptions } from '../inventory/port.ts';
import type { InstanceRecord } from '../inventory/types.ts';
import type { Cluster } from '../kubernetes/port.ts';
import type { JobContext } from './context.ts';

/** A job that holds its instance: the lease, the record as last written, and the one way to write it. */
export type HeldJob = JobContext & {
  readonly cluster: Cluster;
  readonly lease: Lease;
  record(): InstanceRecord;
  now(): number;
  write(options: WriteOptions): Promise<WaitTicket>;
};

export function createBench(context: JobContext, begun: Extract<BeginAnswer, { kind: 'ok' }>): HeldJob {
  let record = begun.record;
  // Redis stamped the record a moment ago: from here on its time is ours plus this (I28).
  const skew = begun.record.updatedAt - Date.now();
  return {
    ...context,
    cluster: context.clusters.get(record.cluster),
    lease: begun.lease,
    record: () => record,
    now: () => Date.now() + skew,
    async write(options) {
      const ticket = await context.inventory.write(begun.lease, options);
      record = { ...record, ...options.set, ...(options.state === undefined ? {} : { state: options.state }) };
      return ticket;
    },
  };
}
