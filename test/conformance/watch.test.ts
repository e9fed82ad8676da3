import { afterAll, describe, expect, it } from 'vitest';
import { merge } from '../support/kube-http.ts';
import { keptChanges, openTarget } from './target.ts';

const target = await openTarget();
const maps = `${target.home}/configmaps`;
const labelled = `${maps}?watch=1&labelSelector=case%3D`;
const make = (name: string, label: string) => target.create('configmaps', { metadata: { name, labels: { case: label } } });
const listed = async () => (await target.call('GET', maps)).body.metadata.resourceVersion as string;
const lines = (watch: { events: { type: string; object: { metadata: { name: string } } }[] }) =>
  watch.events.filter(({ type }) => type !== 'BOOKMARK').map(({ type, object }) => `${type} ${object.metadata.name}`);
afterAll(() => target.close());

describe('a watch', () => {
  it('without a version begins with what is there', async () => {
    await make('w1', 'w');
    const watch = await target.watch(`${labelled}w`);
    await watch.until(({ object }) => object.metadata.name === 'w1');
    await make('w2', 'w');
    await target.call('PATCH', `${maps}/w2`, { data: { a: 'b' } }, merge);
    await target.call('DELETE', `${maps}/w2`);
    await watch.until(({ type }) => type === 'DELETED');
    watch.stop();
    expect(lines(watch)).toEqual(['ADDED w1', 'ADDED w2', 'MODIFIED w2', 'DELETED w2']);
    const [, , changed, deleted] = watch.events;
    expect(changed?.object).toMatchObject({ kind: 'ConfigMap', apiVersion: 'v1', data: { a: 'b' } });
    expect(Number(deleted?.object.metadata.resourceVersion)).toBeGreaterThan(Number(changed?.object.metadata.resourceVersion));
  });

  it('from a version loses and repeats nothing', async () => {
    const version = await listed();
    await make('r1', 'r');
    await make('r2', 'r');
    await target.call('DELETE', `${maps}/r1`);
    const watch = await target.watch(`${labelled}r&resourceVersion=${version}`);
    await make('r3', 'r');
    await watch.until(({ object }) => object.metadata.name === 'r3');
    watch.stop();
    expect(lines(watch)).toEqual(['ADDED r1', 'ADDED r2', 'DELETED r1', 'ADDED r3']);
  });

  it('with a selector shows objects entering and leaving it', async () => {
    const watch = await target.watch(`${labelled}in&resourceVersion=${await listed()}`);
    await make('s1', 'out');
    await make('s2', 'in');
    await target.call('PATCH', `${maps}/s1`, { metadata: { labels: { case: 'in' } } }, merge);
    await target.call('PATCH', `${maps}/s2`, { metadata: { labels: { case: null } } }, merge);
    await watch.until(({ type }) => type === 'DELETED');
    watch.stop();
    expect(lines(watch)).toEqual(['ADDED s2', 'ADDED s1', 'DELETED s2']);
  });

  it('asked for initial events marks their end with a bookmark', async () => {
    await make('i1', 'initial');
    const query = 'sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true';
    const watch = await target.watch(`${labelled}initial&${query}`);
    const { object } = await watch.until(({ type }) => type === 'BOOKMARK');
    watch.stop();
    expect(watch.events.map(({ type }) => type)).toEqual(['ADDED', 'BOOKMARK']);
    expect(object).toMatchObject({ kind: 'ConfigMap', metadata: { annotations: { 'k8s.io/initial-events-end': 'true' } } });
    const refused = await target.call('GET', `${maps}?watch=1&sendInitialEvents=true`);
    expect([refused.code, refused.body.reason]).toEqual([422, 'Invalid']);
  });

  it('ends after its time, and sends a bookmark before when it may', async () => {
    // A real server sends one about two seconds before the end, but not always: when its cache is behind it has none to send.
    const types: string[] = [];
    for (let watches = 0; watches < 4 && !types.includes('BOOKMARK'); watches++) {
      const from = await listed();
      const watch = await target.watch(`${labelled}none&timeoutSeconds=5&allowWatchBookmarks=true&resourceVersion=${from}`);
      await watch.ended;
      types.push(...watch.events.map(({ type }) => type));
      const told = watch.events.at(-1)?.object.metadata.resourceVersion;
      if (told !== undefined) expect(Number(told)).toBeGreaterThanOrEqual(Number(from));
    }
    expect(new Set(types)).toEqual(new Set(['BOOKMARK']));
  });

  it('from a version that is long past is told 410, in an event that ends it', async () => {
    for (let at = 0; at < 2 * keptChanges; at += 20) {
      const part = Array.from({ length: 20 }, (_, index) => make(`old-${at + index}`, 'old'));
      await Promise.all(part);
    }
    const watch = await target.watch(`${maps}?watch=1&resourceVersion=1`);
    await watch.ended;
    expect(watch.events).toHaveLength(1);
    expect(watch.events[0]).toMatchObject({
      type: 'ERROR',
      object: {
        kind: 'Status',
        status: 'Failure',
        reason: 'Expired',
        code: 410,
        message: expect.stringMatching(/^too old resource version: 1 \(\d+\)$/),
      },
    });
  });
});
