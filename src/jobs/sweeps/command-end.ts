import type { InstanceInfo } from '../../agent/protocol.ts';
import type { InstanceRecord } from '../../inventory/types.ts';
import { type Found, type Pass, underLease } from './pass.ts';
import { aboutRecord } from './records.ts';

/** How often an instance whose command still runs is asked, in seconds. */
export const commandLookSeconds = 60;

type Asked = Pick<InstanceRecord, 'request' | 'state' | 'agent' | 'exitCode'>;

/** True while the request's command may end, and nobody has told its end. */
export function awaitsCommand(record: Asked): boolean {
  const { command } = record.request.payload as { command?: readonly string[] };
  return record.state === 'ready' && command !== undefined && record.agent !== null && record.exitCode === null;
}

/** The end of the command as an event and as the record's exit code, once (contract §4); undefined while it runs. */
export function commandEnd(
  pass: Pass,
  seen: Pick<InstanceRecord, 'hash' | 'instanceId' | 'pod' | 'updatedAt'>,
  info: InstanceInfo,
  now: number,
): Found | undefined {
  const { exitCode = null, signal = null } = info.command ?? {};
  if (exitCode === null) return undefined;
  const ended = { exitCode, ...(signal === null ? {} : { signal }) };
  const entry = { ...aboutRecord(seen, now), rule: 'command_ended', verdict: 'settle' as const, evidence: ended };
  const act = () =>
    underLease(pass, seen.hash, entry, async (lease) => {
      const record = await pass.inventory.readByHash(seen.hash);
      if (record === undefined || !awaitsCommand(record) || record.pod?.uid !== seen.pod?.uid)
        return { ...entry, action: 'changed' };
      await pass.inventory.write(lease, { set: { exitCode }, events: [{ type: 'command.exited', ...ended }] });
      return { ...entry, action: 'done' };
    });
  return { key: `command:${seen.hash}`, entry, act };
}
