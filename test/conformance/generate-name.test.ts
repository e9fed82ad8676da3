import { afterAll, expect, it } from 'vitest';
import { openTarget } from './target.ts';

const target = await openTarget();
afterAll(() => target.close());

it('makes a name from generateName, another one each time, and cuts long prefixes', async () => {
  const make = (generateName: string) => target.create('configmaps', { metadata: { generateName } });
  const [one, two] = [await make('made-'), await make('made-')];
  expect(one.metadata.name).toMatch(/^made-[a-z0-9]{5}$/);
  expect(one.metadata.generateName).toBe('made-');
  expect(two.metadata.name).not.toBe(one.metadata.name);
  const long = await make(`${'x'.repeat(70)}-`);
  expect(long.metadata.name).toMatch(/^x{58}[a-z0-9]{5}$/);
});
