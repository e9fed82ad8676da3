import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { strategicMerge } from '../../../src/local-cluster/api/strategic-merge.ts';

const pod = {
  kind: 'Pod',
  metadata: { finalizers: ['a/b', 'c/d'] },
  spec: {
    containers: [
      {
        name: 'one',
        image: 'a',
        env: [
          { name: 'X', value: '1' },
          { name: 'Y', value: '2' },
        ],
        ports: [{ containerPort: 1 }],
        args: ['x'],
      },
      { name: 'two', image: 'b' },
    ],
    tolerations: [{ key: 'k' }],
    volumes: [{ name: 'v', emptyDir: {} }],
  },
};

describe('strategic merge patch', () => {
  it('merges containers and their env by name and leaves the others', () => {
    const patch = {
      spec: {
        containers: [
          {
            name: 'one',
            env: [
              { name: 'Y', value: '3' },
              { name: 'Z', value: '4' },
            ],
          },
        ],
      },
    };
    const { spec } = strategicMerge(pod, patch);
    expect(spec.containers[0]?.env).toEqual([
      { name: 'X', value: '1' },
      { name: 'Y', value: '3' },
      { name: 'Z', value: '4' },
    ]);
    expect(spec.containers[1]).toEqual({ name: 'two', image: 'b' });
    expect(pod.spec.containers[0]?.env).toHaveLength(2);
  });

  it('replaces lists without a merge key', () => {
    const { spec } = strategicMerge(pod, {
      spec: { tolerations: [{ key: 'n' }], containers: [{ name: 'one', args: ['y', 'z'] }] },
    });
    expect(spec.tolerations).toEqual([{ key: 'n' }]);
    expect(spec.containers[0]?.args).toEqual(['y', 'z']);
  });

  it('deletes an item by $patch: delete and a field by null', () => {
    const patch = { spec: { containers: [{ name: 'two', $patch: 'delete' }], volumes: null } };
    const { spec } = strategicMerge(pod, patch);
    expect(spec.containers.map(({ name }) => name)).toEqual(['one']);
    expect('volumes' in spec).toBe(false);
  });

  it('replaces a list and a map by $patch: replace', () => {
    const patch = { spec: { $patch: 'replace', containers: [{ name: 'new' }] } };
    expect(strategicMerge(pod, patch).spec).toEqual({ containers: [{ name: 'new' }] });
    const list = { spec: { containers: [{ $patch: 'replace' }, { name: 'new' }] } };
    expect(strategicMerge(pod, list).spec.containers).toEqual([{ name: 'new' }]);
  });

  it('merges finalizers as a set and takes some out by $deleteFromPrimitiveList', () => {
    expect(strategicMerge(pod, { metadata: { finalizers: ['e/f', 'a/b'] } }).metadata.finalizers).toEqual(['a/b', 'c/d', 'e/f']);
    const removal = { metadata: { '$deleteFromPrimitiveList/finalizers': ['a/b'] } };
    expect(strategicMerge(pod, removal).metadata).toEqual({ finalizers: ['c/d'] });
  });

  it('orders by $setElementOrder, with unnamed items beside their old neighbours', () => {
    const service = { kind: 'Service', spec: { ports: [{ port: 1 }, { port: 2 }, { port: 3 }] } };
    const patch = { spec: { '$setElementOrder/ports': [{ port: 3 }, { port: 1 }], ports: [{ port: 3, name: 'c' }] } };
    expect(strategicMerge(service, patch).spec.ports).toEqual([{ port: 2 }, { port: 3, name: 'c' }, { port: 1 }]);
  });

  it('keeps only the named keys of a volume by $retainKeys', () => {
    const patch = { spec: { volumes: [{ name: 'v', $retainKeys: ['name', 'secret'], secret: { secretName: 's' } }] } };
    expect(strategicMerge(pod, patch).spec.volumes).toEqual([{ name: 'v', secret: { secretName: 's' } }]);
  });

  it('refuses an item without its merge key', () => {
    expect(() => strategicMerge(pod, { spec: { containers: [{ image: 'x' }] } })).toThrow(
      'does not contain declared merge key: name',
    );
  });

  it('never leaves a directive in the result, and applying a patch twice changes nothing more', () => {
    const names = fc.constantFrom('one', 'two', 'three');
    const item = fc.record({ name: names, image: fc.string() }, { requiredKeys: ['name'] });
    const remove = fc.record({ name: names, $patch: fc.constant('delete') });
    const patches = fc.uniqueArray(fc.oneof(item, remove), { selector: ({ name }) => name, maxLength: 3 });
    fc.assert(
      fc.property(patches, (containers) => {
        const once = strategicMerge(pod, { spec: { containers } });
        expect(JSON.stringify(once)).not.toContain('$patch');
        expect(strategicMerge(once, { spec: { containers } })).toEqual(once);
      }),
      { numRuns: 200 },
    );
  });
});
