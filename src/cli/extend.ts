import type { Command } from 'commander';
import { checkedId, usage, verb } from './context.ts';

const units: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** `90`, `45m`, `2h`, `1d12h` → seconds. */
function duration(option: string, text: string): number {
  const parts = [...text.matchAll(/(\d{1,9})([smhd]?)/g)];
  const whole = parts.map(([part]) => part).join('');
  const seconds = parts.reduce((sum, [, count, unit]) => sum + Number(count) * (units[unit || 's'] ?? 0), 0);
  if (text === '' || whole !== text || seconds < 1) throw usage(option, `must be a time such as 45m, 2h or 1d, not "${text}"`);
  return seconds;
}

export function extend(program: Command): void {
  const command = program
    .command('extend <id>')
    .description('let an instance live longer, at most as long as the limits allow')
    .requiredOption('--by <time>', 'how much longer: 45m, 2h, 1d');
  verb<{ by: string }>(command, async (context, options, [id]) => {
    const instanceId = await checkedId(id);
    const bySeconds = duration('--by', options.by);
    await context.withCaller(async ({ producer }) => {
      const extended = await producer.extend({ version: 1, instanceId, bySeconds });
      if (extended.clamped) context.out.say('The limits end it earlier than asked.');
      await context.out.show({
        document: { ...extended },
        text: () => `${instanceId} ends at ${extended.expiresAt}`,
        names: [instanceId],
      });
    });
  });
}
