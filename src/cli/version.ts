import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { verb } from './context.ts';

/** package.json lies two folders up, from the sources and from dist alike. */
export function packageVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

export function version(program: Command): void {
  verb(program.command('version').description('the version of Windlass and Node'), async (context) => {
    const found = packageVersion();
    await context.out.show({
      document: { version: found, node: process.version },
      text: () => `windlass ${found} (Node ${process.version})`,
    });
  });
}
