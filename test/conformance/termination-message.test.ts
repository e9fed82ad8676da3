import { afterAll, expect, it } from 'vitest';
import { openTarget, podOf } from './target.ts';

const target = await openTarget();
const message = async (name: string, script: string, container = {}) => {
  await target.create('pods', podOf(target, name, script, {}, container));
  const { status } = await target.until(`pods/${name}`, (pod) => pod.status.containerStatuses?.[0].state.terminated);
  return status.containerStatuses[0].state.terminated.message as string | undefined;
};
afterAll(() => target.close());

it('the termination message is what the container left in its file, or the end of its log when told so', async () => {
  expect(await message('file', 'printf "last words" > /dev/termination-log; exit 1')).toBe('last words');
  expect(await message('none', 'echo to the log; exit 1')).toBeUndefined();
  const fallback = { terminationMessagePolicy: 'FallbackToLogsOnError' };
  expect(await message('log', 'echo to the log; exit 1', fallback)).toBe('to the log\n');
  expect(await message('well', 'echo to the log', fallback)).toBeUndefined();
  const long = await message('long', 'head -c 9000 /dev/zero | tr "\\0" a > /dev/termination-log; exit 1');
  expect(long).toHaveLength(4096);
});
