import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keptChanges, openTarget } from './target.ts';

const target = await openTarget();
const maps = `${target.home}/configmaps`;
const page = async (limit: number, token = '') =>
  (await target.call('GET', `${maps}?labelSelector=paged&limit=${limit}&continue=${encodeURIComponent(token)}`)).body;
const names = (list: { items: { metadata: { name: string } }[] }) => list.items.map(({ metadata }) => metadata.name);
const make = (name: string, labels = {}) => target.create('configmaps', { metadata: { name, labels } });

beforeAll(async () => {
  for (const name of ['p1', 'p2', 'p3', 'p4', 'p5']) await make(name, { paged: 'yes' });
});
afterAll(() => target.close());

describe('a list in pages', () => {
  it('is in order of the names, and one version of the whole', async () => {
    const first = await page(2);
    expect(names(first)).toEqual(['p1', 'p2']);
    expect(first.metadata.remainingItemCount).toBeUndefined();
    await target.call('DELETE', `${maps}/p3`);
    await make('p35', { paged: 'yes' });
    const second = await page(2, first.metadata.continue);
    expect(names(second)).toEqual(['p3', 'p4']);
    expect(second.metadata.resourceVersion).toBe(first.metadata.resourceVersion);
    const third = await page(2, second.metadata.continue);
    expect([names(third), third.metadata.continue]).toEqual([['p5'], undefined]);
    expect(names(await page(10))).toEqual(['p1', 'p2', 'p35', 'p4', 'p5']);
  });

  it('says how many remain when nothing is selected', async () => {
    const { metadata, items } = (await target.call('GET', `${maps}?limit=1`)).body;
    const all = (await target.call('GET', maps)).body.items.length;
    expect([items.length, metadata.remainingItemCount]).toEqual([1, all - 1]);
  });

  it('refuses a token that it did not make', async () => {
    const { code, body } = await target.call('GET', `${maps}?limit=1&continue=nonsense`);
    expect([code, body.reason]).toEqual([400, 'BadRequest']);
    expect(body.message).toMatch(/^invalid continue token: continue key is not valid: /);
  });

  // A real server forgets old versions every five minutes: one that has just been started may still know the first.
  it('goes on from an old version as it was, or is told 410 with a token for the rest', async () => {
    const { continue: token } = (await page(1)).metadata;
    const cursor = JSON.parse(Buffer.from(token, 'base64').toString());
    for (let at = 0; at < 2 * keptChanges; at += 20) {
      await Promise.all(Array.from({ length: 20 }, (_, index) => make(`filler-${at + index}`)));
    }
    const old = Buffer.from(JSON.stringify({ ...cursor, rv: 1 })).toString('base64url');
    const { code, body } = await target.call('GET', `${maps}?labelSelector=paged&limit=1&continue=${old}`);
    if (code === 200) expect(body.items).toEqual([]);
    else {
      expect([code, body.reason]).toEqual([410, 'Expired']);
      expect(body.message).toMatch(/^The provided continue parameter is too old to display a consistent list result\./);
      const rest = await page(10, body.metadata.continue);
      expect(names(rest)).toEqual(['p2', 'p35', 'p4', 'p5']);
    }
  });

  it('is read to its end by the adapter, metadata only', async () => {
    const seen: string[] = [];
    for await (const { items, serverTime } of target.cluster.listMetadata('configmaps', 'paged')) {
      seen.push(...items.map(({ name }) => name ?? ''));
      expect(Math.abs(serverTime - Date.now())).toBeLessThan(5000);
    }
    expect(seen).toEqual(['p1', 'p2', 'p35', 'p4', 'p5']);
  });
});
