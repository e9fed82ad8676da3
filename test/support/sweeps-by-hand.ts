import { builtSweeps } from '../../src/jobs/catalog.ts';

/** Once a year: a scheduled pass at the start of a worker would be the first of two sightings. What is found is old enough. */
export const atOnce = { cron: '0 0 1 1 *', graceSeconds: 0 };

/** Sweeps of every kind only when a test asks for one. */
export const sweepsByHand = Object.fromEntries(builtSweeps.map((kind) => [kind, atOnce]));
