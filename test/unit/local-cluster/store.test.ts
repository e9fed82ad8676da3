import { describe, expect, it } from 'vitest';
import { createStore } from '../../../src/local-cluster/store.ts';
import type { StoreEvent } from '../../../src/local-cluster/types.ts';

const configMap = (name: string, namespace = 'default', data: Record<string, string> = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace },
  data,
});

describe('the store of the embedded cluster', () => {
  it('gives every write a new resourceVersion, a uid and one event', () => {
    const store = createStore({ now: () => Date.parse('2026-01-02T03:04:05.678Z') });
    const events: StoreEvent[] = [];
    store.subscribe((event) => events.push(event));
    const made = store.create('configmaps', configMap('a'));
    store.update('configmaps', 'default', 'a', (object) => {
      object.data = { x: '1' };
    });
    store.remove('configmaps', 'default', 'a');
    expect(made.metadata.creationTimestamp).toBe('2026-01-02T03:04:05Z');
    expect(made.metadata.uid).toMatch(/^[0-9a-f-]{36}$/);
    expect(events.map(({ type, object }) => [type, object.metadata.resourceVersion])).toEqual([
      ['ADDED', '1'],
      ['MODIFIED', '2'],
      ['DELETED', '3'],
    ]);
    expect(store.resourceVersion).toBe('3');
    expect(events[2]?.previous?.data).toEqual({ x: '1' });
  });

  it('hands out objects that nobody can change', () => {
    const store = createStore();
    const input = configMap('a', 'default', { x: '1' });
    const made = store.create('configmaps', input);
    input.data.x = 'changed from outside';
    expect(() => {
      made.data.x = 'changed';
    }).toThrow(TypeError);
    expect(store.get('configmaps', 'default', 'a')?.data).toEqual({ x: '1' });
  });

  it('makes no event when a write changes nothing or its change says no', () => {
    const store = createStore();
    store.create('configmaps', configMap('a', 'default', { x: '1' }));
    store.update('configmaps', 'default', 'a', (object) => {
      object.data = { x: '1' };
    });
    store.update('configmaps', 'default', 'a', (object) => {
      object.data = { x: '2' };
      return false;
    });
    expect(store.resourceVersion).toBe('1');
    expect(store.get('configmaps', 'default', 'a')?.data).toEqual({ x: '1' });
  });

  it('leaves an object alone whose name now belongs to another uid', () => {
    const store = createStore();
    const old = store.create('configmaps', configMap('a'));
    store.remove('configmaps', 'default', 'a');
    store.create('configmaps', configMap('a'));
    expect(store.update('configmaps', 'default', 'a', () => undefined, old.metadata.uid)).toBeUndefined();
    expect(store.remove('configmaps', 'default', 'a', old.metadata.uid)).toBeUndefined();
    expect(store.get('configmaps', 'default', 'a')).toBeDefined();
  });

  it('refuses a name that is taken', () => {
    const store = createStore();
    store.create('configmaps', configMap('a'));
    expect(() => store.create('configmaps', configMap('a'))).toThrow('configmaps "a" already exists');
    expect(store.create('configmaps', configMap('a', 'other')).metadata.namespace).toBe('other');
  });

  it('shows every listener all events in order, also those that another listener causes', () => {
    const store = createStore();
    store.subscribe(({ type, object }) => {
      if (type === 'ADDED' && object.metadata.name === 'first') store.create('configmaps', configMap('second'));
    });
    const seen: string[] = [];
    store.subscribe(({ object }) => seen.push(object.metadata.resourceVersion));
    store.create('configmaps', configMap('first'));
    expect(seen).toEqual(['1', '2']);
  });

  it('lists in key order, and only the namespace asked for', () => {
    const store = createStore();
    for (const [name, namespace] of [
      ['b', 'x'],
      ['a', 'x'],
      ['c', 'xy'],
      ['a', 'w'],
    ] as const)
      store.create('configmaps', configMap(name, namespace));
    expect(store.list('configmaps', 'x').map(({ metadata }) => metadata.name)).toEqual(['a', 'b']);
    expect(store.list('configmaps').map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)).toEqual([
      'w/a',
      'x/a',
      'x/b',
      'xy/c',
    ]);
  });

  it('shows the objects as they were at an earlier version', () => {
    const store = createStore();
    store.create('configmaps', configMap('kept', 'default', { x: 'old' }));
    store.create('configmaps', configMap('removed'));
    store.update('configmaps', 'default', 'kept', (object) => {
      object.data = { x: 'new' };
    });
    store.remove('configmaps', 'default', 'removed');
    store.create('configmaps', configMap('added'));
    const then = store.listAt('configmaps', 'default', 2);
    expect(then?.map(({ metadata, data }) => [metadata.name, data])).toEqual([
      ['kept', { x: 'old' }],
      ['removed', {}],
    ]);
    expect(store.list('configmaps', 'default').map(({ metadata }) => metadata.name)).toEqual(['added', 'kept']);
  });

  it('forgets versions beyond its history instead of inventing them', () => {
    const store = createStore({ historySize: 3 });
    for (let index = 0; index < 10; index += 1) store.create('configmaps', configMap(`m${index}`));
    expect(store.since(1)).toBeUndefined();
    expect(store.listAt('configmaps', undefined, 1)).toBeUndefined();
    expect(store.since(8)?.map(({ object }) => object.metadata.name)).toEqual(['m8', 'm9']);
    expect(store.since(10)).toEqual([]);
  });
});
