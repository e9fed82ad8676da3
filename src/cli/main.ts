#!/usr/bin/env node
import { run } from './run.ts';

/** A reader that went away (`windlass list | head -1`) is no failure. */
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});

process.exitCode = await run(process.argv.slice(2));
// Whatever a library still holds open must not keep the command alive; what was written is flushed first.
process.stdout.write('', () => process.stderr.write('', () => process.exit()));
