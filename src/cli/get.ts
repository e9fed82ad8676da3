import type { Command } from 'commander';
import { sleep } from '../clock.ts';
import { ageWords } from '../dashboard/words.ts';
import type { InstanceRecord, State } from '../inventory/types.ts';
import type { Caller } from '../main.ts';
import { type Context, checkedId, usage, verb } from './context.ts';
import { existing } from './follow.ts';
import { instanceText } from './instance-text.ts';
import { interruptible } from './interrupt.ts';
import { clean, table } from './output.ts';
import { collect, whole } from './values.ts';

interface ListOptions {
  readonly state?: readonly string[];
  readonly owner?: string;
  readonly watch?: boolean;
  readonly limit?: string;
  readonly cursor?: string;
}

const listing = (command: Command): Command =>
  command
    .option('--state <state>', 'only these states (repeatable)', collect)
    .option('--owner <owner>', 'only this owner')
    .option('-w, --watch', 'go on and print what changes')
    .option('--limit <n>', 'how many at most (1 to 500)', '100')
    .option('--cursor <cursor>', 'go on where the page before ended');

export function get(program: Command): void {
  verb<ListOptions>(
    listing(program.command('get [id]').description('one record, or all of them')),
    async (context, options, [id]) => {
      if (id === undefined) return list(context, options);
      const instanceId = await checkedId(id);
      const { toInstance } = await import('../inventory/view.ts');
      await context.withCaller(async (caller) => {
        const record = await existing(caller.inventory, instanceId);
        await context.out.show({ document: { ...toInstance(record) }, text: () => instanceText(record), names: [instanceId] });
      });
    },
  );
}

export function listVerb(program: Command): void {
  verb<ListOptions>(listing(program.command('list').alias('ls').description('the instances there are')), list);
}

async function list(context: Context, options: ListOptions): Promise<undefined> {
  const { states } = await import('../inventory/types.ts');
  const wrong = options.state?.find((state) => !states.includes(state as State));
  if (wrong !== undefined) throw usage('--state', `must be one of ${states.join(', ')}, not "${wrong}"`);
  const query = {
    limit: whole('--limit', options.limit ?? '100', 1, 500),
    ...(options.state && { states: options.state as State[] }),
    ...(options.owner !== undefined && { owner: options.owner }),
    ...(options.cursor !== undefined && { cursor: options.cursor }),
  };
  return context.withCaller((caller) => (options.watch ? watch(context, caller, query) : onePage(context, caller, query)));
}

type Query = Parameters<Caller['inventory']['list']>[0];

async function onePage(context: Context, caller: Caller, query: Query): Promise<undefined> {
  const { toInstance } = await import('../inventory/view.ts');
  const { items, nextCursor } = await caller.inventory.list(query);
  const now = await caller.inventory.now();
  await context.out.show({
    document: { items: items.map(toInstance), nextCursor },
    text: (wide) =>
      items.length === 0
        ? 'No instances.'
        : table(
            head(wide),
            items.map((item) => row(item, now, wide)),
          ),
    names: items.map((item) => item.instanceId),
  });
  if (nextCursor !== null && context.out.format !== 'json' && context.out.format !== 'yaml') {
    context.out.say(`There are more: windlass list --cursor ${nextCursor}`);
  }
}

const watchEveryMs = 1000;

/** Prints every record once, and again whenever it changed; NDJSON for programs. */
async function watch(context: Context, caller: Caller, query: Query): Promise<undefined> {
  const { toInstance } = await import('../inventory/view.ts');
  const interrupt = interruptible();
  const people = context.out.format === 'text' || context.out.format === 'wide';
  const wide = context.out.format === 'wide';
  const seen = new Map<string, string>();
  const widths = head(wide).map((title) => Math.max(title.length, 12));
  const print = (cells: readonly string[]) =>
    process.stdout.write(
      `${cells
        .map((cell, i) => clean(cell).padEnd(widths[i]!))
        .join('  ')
        .trimEnd()}\n`,
    );
  if (people) print(head(wide));
  try {
    while (!interrupt.signal.aborted) {
      const now = await caller.inventory.now();
      const { items } = await caller.inventory.list(query);
      for (const item of items) {
        const version = `${item.updatedAt} ${item.state} ${item.generation} ${item.run}`;
        if (seen.get(item.instanceId) === version) continue;
        seen.set(item.instanceId, version);
        if (people) print(row(item, now, wide));
        else context.out.line({ ...toInstance(item) });
      }
      for (const id of [...seen.keys()].filter((id) => !items.some((item) => item.instanceId === id))) {
        seen.delete(id);
        if (people) print([id, '', 'gone']);
        else context.out.line({ instanceId: id, state: 'gone' });
      }
      await sleep(watchEveryMs, interrupt.signal).catch((error: unknown) => {
        if (!interrupt.signal.aborted) throw error;
      });
    }
  } finally {
    interrupt.dispose();
  }
}

const head = (wide: boolean): string[] => [
  'ID',
  'OWNER',
  'STATE',
  'PROFILE',
  'CLUSTER',
  'AGE',
  ...(wide ? ['NAMESPACE', 'POD', 'NODE', 'WORKSPACE', 'GENERATION', 'FAILURE'] : []),
];

function row(record: InstanceRecord, now: number, wide: boolean): string[] {
  const common = [
    record.instanceId,
    record.owner,
    record.state,
    record.profile || record.app,
    record.cluster,
    ageWords(now - record.createdAt),
  ];
  if (!wide) return common;
  return [
    ...common,
    record.namespace,
    record.pod?.name ?? '',
    record.pod?.node ?? '',
    record.workspace?.claimName ?? '',
    String(record.generation),
    record.failure?.code ?? '',
  ];
}
