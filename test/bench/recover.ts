// `npm run bench -- recover [COUNT]`: FLUSHALL under COUNT (500) live instances and a stream of launches; one JSON document.
import { broken, recoverMany } from '../support/recover-many.ts';

const count = Number(process.argv[2] ?? 500);
if (!Number.isInteger(count) || count < 1) {
  process.stderr.write('Give the number of live instances as a whole number, for example: recover 500\n');
  process.exit(2);
}

// Nobody asks for the recovery: a worker notices by itself.
const figures = await recoverMany(count, async () => undefined, { recovery: { onLost: 'rebuild' } });
const faults = broken(figures);
process.stdout.write(`${JSON.stringify({ schema: 'windlass/v1', bench: 'recover', ...figures, faults })}\n`);
process.exitCode = faults.length === 0 ? 0 : 1;
