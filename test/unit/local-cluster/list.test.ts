import { describe, expect, it } from 'vitest';
import { listObjects } from '../../../src/local-cluster/api/list.ts';
import { resourceNamed } from '../../../src/local-cluster/api/resources.ts';
import { createStore } from '../../../src/local-cluster/store.ts';
import type { NodeRuntime } from '../../../src/local-cluster/types.ts';

const configMaps = resourceNamed('configmaps');

function setUp(count: number, historySize?: number) {
  const store = createStore(historySize === undefined ? {} : { historySize });
  const add = (name: string) =>
    store.create('configmaps', {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name, namespace: 'n', labels: { odd: name } },
    });
  for (let index = 0; index < count; index += 1) add(`m${index}`);
  const context = { store, node: {} as NodeRuntime, hidden: (uid: string) => uid === hiddenUid, log: () => undefined };
  let hiddenUid = '';
  const page = (query: Record<string, string>, hideForMs = 0) =>
    listObjects(context, configMaps, 'n', new URLSearchParams(query), hideForMs);
  return {
    store,
    add,
    page,
    hide: (uid: string) => {
      hiddenUid = uid;
    },
  };
}

const names = ({ items }: { items: readonly { metadata: { name: string } }[] }) => items.map(({ metadata }) => metadata.name);

describe('paging', () => {
  it('shows the state of the first page on all pages, whatever is written between them', () => {
    const { store, add, page } = setUp(5);
    const first = page({ limit: '2' });
    add('m05');
    store.remove('configmaps', 'n', 'm3');
    const second = page({ limit: '2', continue: first.metadata.continue! });
    const third = page({ limit: '2', continue: second.metadata.continue! });
    expect([first, second, third].map(names)).toEqual([['m0', 'm1'], ['m2', 'm3'], ['m4']]);
    expect(first.metadata.remainingItemCount).toBe(3);
    expect(second.metadata.resourceVersion).toBe(first.metadata.resourceVersion);
    expect(third.metadata.continue).toBeUndefined();
  });

  it('answers 410 with a token to go on inconsistently once the version is forgotten', () => {
    const { add, page } = setUp(4, 3);
    const first = page({ limit: '1' });
    for (const name of ['x1', 'x2', 'x3', 'x4', 'x5', 'x6']) add(name);
    let again = '';
    try {
      page({ limit: '1', continue: first.metadata.continue! });
    } catch (error) {
      expect(error).toMatchObject({ code: 410, status: { reason: 'Expired' } });
      again = (error as { status: { metadata: { continue: string } } }).status.metadata.continue;
    }
    expect(names(page({ continue: again }))).toEqual(['m1', 'm2', 'm3', 'x1', 'x2', 'x3', 'x4', 'x5', 'x6']);
  });

  it('does not count what a selector hides', () => {
    const { page } = setUp(3);
    const found = page({ limit: '1', labelSelector: 'odd in (m1,m2)' });
    expect(names(found)).toEqual(['m1']);
    expect(found.metadata.remainingItemCount).toBeUndefined();
  });

  it('lists an exact earlier version and refuses one from the future', () => {
    const { store, page } = setUp(2);
    store.remove('configmaps', 'n', 'm0');
    expect(names(page({ resourceVersion: '2', resourceVersionMatch: 'Exact' }))).toEqual(['m0', 'm1']);
    expect(names(page({ resourceVersion: '2' }))).toEqual(['m1']);
    expect(() => page({ resourceVersion: '99' })).toThrow('Too large resource version: 99, current: 3');
  });

  it.each([{ limit: 'x' }, { continue: 'nonsense' }])('refuses %o', (query) => {
    expect(() => setUp(1).page(query as Record<string, string>)).toThrow(expect.objectContaining({ code: 400 }));
  });

  it('leaves out what a fault still hides', () => {
    const { store, page, hide } = setUp(2);
    hide(store.get('configmaps', 'n', 'm0')!.metadata.uid);
    expect(names(page({}, 1000))).toEqual(['m1']);
    expect(names(page({}))).toEqual(['m0', 'm1']);
  });
});
