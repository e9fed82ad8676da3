import type { SweepKind } from '../../config/schema.ts';
import type { Shelf } from '../../inventory/shelf.ts';
import type { SweepReport } from '../context.ts';

/** How a kind of sweep fares on the whole installation, whichever worker ran it. */
export interface SweepHealth {
  /** Redis ms of the end of the last pass that nothing stopped, on any cluster; 0 = never. */
  readonly succeededAt: number;
  /** The last pass that could tell was stopped by the breaker (I22). */
  readonly breakerOpen: boolean;
}

const unknown: SweepHealth = { succeededAt: 0, breakerOpen: false };
const shelfName = (kind: SweepKind): string => `sweep-health:${kind}`;

export const readSweepHealth = async (shelf: Shelf, kind: SweepKind): Promise<SweepHealth> =>
  (await shelf.get<SweepHealth>(shelfName(kind))) ?? unknown;

/** Dry runs that somebody asked for are left out: they would hide that the real ones do not run. */
export async function noteSweepHealth(
  shelf: Shelf,
  kind: SweepKind,
  reports: readonly SweepReport[],
  now: number,
): Promise<void> {
  await shelf.put(shelfName(kind), healthAfter(await readSweepHealth(shelf, kind), reports, now));
}

/** A cluster that could not be read says nothing about the breaker: it stays as it was. */
export function healthAfter(before: SweepHealth, reports: readonly Pick<SweepReport, 'stopped'>[], now: number): SweepHealth {
  const codes = reports.map(({ stopped }) => stopped?.code);
  const whole = codes.every((code) => code === undefined);
  const refused = codes.includes('mass_delete_refused');
  return { succeededAt: whole ? now : before.succeededAt, breakerOpen: refused || (before.breakerOpen && !whole) };
}
