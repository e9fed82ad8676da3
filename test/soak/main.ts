// `npm run soak [-- --launches N | --minutes M] [--seed N] [--fault-rate R] [--concurrency N] [--workers N] [--json]`: many
// instances on the embedded cluster while workers die, Redis restarts and the API server fails. Exit code 0 only when
// nothing was launched twice, leaked or lost, and no secret was found where none belongs.
import { parseArgs } from 'node:util';
import { interruption } from '../support/interrupt.ts';
import { soak } from '../support/soak/soak.ts';

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    launches: { type: 'string', default: '100' },
    minutes: { type: 'string' },
    seed: { type: 'string', default: '1' },
    'fault-rate': { type: 'string', default: '0.02' },
    concurrency: { type: 'string', default: '8' },
    workers: { type: 'string', default: '3' },
  },
});

const { signal, exit } = interruption();
const report = await soak({
  launches: whole('launches', values.launches),
  ...(values.minutes === undefined ? {} : { minutes: number('minutes', values.minutes, Number.MAX_VALUE) }),
  seed: whole('seed', values.seed),
  faultRate: number('fault-rate', values['fault-rate'], 1),
  concurrency: whole('concurrency', values.concurrency),
  workers: whole('workers', values.workers),
  troubleEverySeconds: 5,
  patience: 300,
  told: (line) => process.stderr.write(`${line}\n`),
  signal,
}).catch((error: unknown) => {
  if (!signal.aborted) throw error;
  process.stderr.write('interrupted; all that was started has ended\n');
  return exit(1);
});

const { duplicates, leaked, lost, secretsFound, unexpected, ...rest } = report;
const found = { duplicates, leaked, lost, secretsFound, unexpected };
const counts = Object.fromEntries(Object.entries(found).map(([name, items]) => [name, items.length]));
const bad = Object.values(counts).some((count) => count > 0);
if (values.json) process.stdout.write(`${JSON.stringify({ schema: 'windlass/v1', ...counts, ...rest, details: found })}\n`);
else {
  for (const [name, items] of Object.entries(found)) for (const item of items) process.stdout.write(`${name}: ${item}\n`);
  process.stdout.write(`${JSON.stringify({ ...counts, ...rest })}\n`);
}
process.exitCode = bad || report.launches === 0 ? 1 : 0;

function number(name: string, text: string, most: number): number {
  const value = Number(text);
  if (Number.isFinite(value) && value >= 0 && value <= most) return value;
  process.stderr.write(`--${name} must be a number from 0 to ${most}, not ${text}\n`);
  process.exit(2);
}

function whole(name: string, text: string): number {
  const value = number(name, text, Number.MAX_SAFE_INTEGER);
  if (Number.isInteger(value) && (value > 0 || name === 'seed')) return value;
  process.stderr.write(`--${name} must be a whole number above 0, not ${text}\n`);
  process.exit(2);
}
