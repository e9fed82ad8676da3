import { Argument, type Command } from 'commander';
import type { ZodType } from 'zod';
import { verb } from './context.ts';

const kinds = ['config', 'launch', 'teardown', 'sweep', 'event', 'instance'] as const;
type Kind = (typeof kinds)[number];

export function schema(program: Command): void {
  const command = program
    .command('schema')
    .description('JSON Schema (draft 2020-12) of what goes in and comes out')
    .addArgument(new Argument('[kind]', 'which one').choices(kinds));
  verb(command, async (context, _options, [kind]) => {
    const { z } = await import('zod');
    const print = async (name: Kind) => {
      const { zod, io } = await find(name);
      return z.toJSONSchema(zod, { target: 'draft-2020-12', io, unrepresentable: 'any' }) as Record<string, unknown>;
    };
    if (kind !== undefined) {
      await context.out.show({ document: await print(kind as Kind) });
      return;
    }
    const all = await Promise.all(kinds.map(async (name) => [name, await print(name)] as const));
    await context.out.show({ document: { schemas: Object.fromEntries(all) } });
  });
}

/** What people send is described as they may write it (defaults left out); what we send as it comes. */
async function find(kind: Kind): Promise<{ zod: ZodType; io: 'input' | 'output' }> {
  if (kind === 'config') return { zod: (await import('../config/schema.ts')).configSchema, io: 'input' };
  if (kind === 'instance') return { zod: (await import('../inventory/view.ts')).instanceSchema, io: 'output' };
  if (kind === 'event') return { zod: (await import('../inventory/view.ts')).eventSchema, io: 'output' };
  const catalog = await import('../jobs/catalog.ts');
  const byKind = { launch: catalog.launchSchema, teardown: catalog.teardownSchema, sweep: catalog.sweepSchema };
  return { zod: byKind[kind], io: 'input' };
}
