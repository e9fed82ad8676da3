import { afterAll, expect, it } from 'vitest';
import { openTarget } from './target.ts';

const target = await openTarget();
afterAll(() => target.close());

it('every answer carries the time of the server, refusals too', async () => {
  for (const path of ['/version', `${target.home}/pods`, `${target.home}/pods/nope`, '/api/v1/nope']) {
    const { headers } = await target.call('GET', path);
    expect(String(headers.date)).toMatch(/ GMT$/);
    expect(Math.abs(Date.parse(String(headers.date)) - Date.now())).toBeLessThan(5000);
  }
  const { gitVersion, serverTime } = await target.cluster.version();
  expect(gitVersion).toMatch(/^v1\.\d+\./);
  expect(Math.abs(serverTime - Date.now())).toBeLessThan(5000);
});
