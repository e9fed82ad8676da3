import type { Fault } from './images.ts';

/** What runs instead of the container's own command; undefined = its own. */
export function faultCommand(fault: Fault | undefined): string[] | undefined {
  if (fault?.kind !== 'crash' && fault?.kind !== 'exit') return undefined;
  const code = fault.kind === 'crash' ? 1 : fault.value & 255;
  return ['sh', '-c', `echo "fault.local: ending with exit code ${code}" >&2; exit ${code}`];
}

export function isOutOfMemory(fault: Fault | undefined): boolean {
  return fault?.kind === 'oom';
}
