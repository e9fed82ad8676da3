import { describe, expect, it } from 'vitest';
import {
  adoptable,
  createNonce,
  type Identity,
  identityOn,
  isOurs,
  keys,
  labelFor,
  ownedAnnotations,
  ownedLabels,
} from '../../../src/kubernetes/ownership.ts';

const identity = (rest: Partial<Identity> = {}): Identity => ({
  installation: 'local',
  instanceId: 'ins-1',
  hash: '0123456789abcdef0123',
  owner: 'alice',
  cluster: 'default',
  profile: 'node',
  ...rest,
});
const marks = { nonce: 'n'.repeat(64), generation: 3, specHash: 'h', snapshot: 's' };
const metaOf = (who: Identity) => ({
  name: `windlass-${who.hash}`,
  labels: ownedLabels(who),
  annotations: ownedAnnotations({ ...who, ...marks }),
});

const labelValue = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const odd = ['_@x.com', '-a', 'a'.repeat(64), 'ü', '😀'.repeat(128), 'a/b', '%', '{x}', ':', '*', 'sha256-abc', 'a b'];

describe('C91: ids as labels', () => {
  it.each(odd)('%j is a valid label, and verbatim in an annotation', (id) => {
    expect(labelFor(id)).toMatch(labelValue);
    const meta = metaOf(identity({ instanceId: id, owner: id, taskId: id, app: id }));
    expect(Object.values(meta.labels).every((value) => labelValue.test(value))).toBe(true);
    expect(meta.annotations[keys.instance]).toBe(id);
    expect(identityOn(meta)).toEqual(identity({ instanceId: id, owner: id, taskId: id, app: id }));
  });

  it('keeps different ids apart, even one that looks like the digest of another', () => {
    expect(labelFor('A')).not.toBe(labelFor('a'));
    expect(labelFor(labelFor('ü'))).not.toBe(labelFor('ü'));
  });

  it('writes no annotation for an id that is a label', () => {
    expect(ownedAnnotations({ ...identity(), ...marks })).toEqual({
      [keys.nonce]: marks.nonce,
      [keys.generation]: '3',
      [keys.specHash]: 'h',
      [keys.snapshot]: 's',
    });
  });
});

describe('isOurs', () => {
  it('wants every owned label and no other of our prefix', () => {
    const { labels } = metaOf(identity());
    expect(isOurs({ labels: { ...labels, team: 'x', [keys.egress]: 'none', [keys.retained]: 'true' } }, identity())).toBe(true);
    expect(isOurs({ labels: { ...labels, [keys.owner]: 'bob' } }, identity())).toBe(false);
    expect(isOurs({ labels: { ...labels, 'windlass.dev/other': 'x' } }, identity())).toBe(false);
    const { [keys.installation]: _gone, ...rest } = labels;
    expect(isOurs({ labels: rest }, identity())).toBe(false);
  });
});

describe('C02: adoptable', () => {
  const meta = { ...metaOf(identity()), uid: 'u1' };
  it('takes our nonce or the recorded UID, and nothing else', () => {
    expect(adoptable(meta, { nonce: marks.nonce, specHash: 'h' })).toBe('ours');
    expect(adoptable(meta, { nonce: 'other', uid: 'u1', specHash: 'h' })).toBe('ours');
    expect(adoptable(meta, { nonce: 'other', uid: 'u2' })).toBe('foreign');
    expect(adoptable(meta, { nonce: '', uid: '' })).toBe('foreign');
    expect(adoptable({ uid: '' }, { nonce: '', uid: '' })).toBe('foreign');
  });

  it('tells what is on its way out and what has other content', () => {
    expect(adoptable({ ...meta, deletionTimestamp: new Date() }, { nonce: marks.nonce })).toBe('deleting');
    expect(adoptable({ ...meta, deletionTimestamp: new Date() }, { nonce: 'other' })).toBe('foreign');
    expect(adoptable(meta, { nonce: marks.nonce, specHash: 'new' })).toBe('changed');
    expect(adoptable(meta, { nonce: marks.nonce })).toBe('ours');
  });
});

it('identityOn reads only objects of this layout', () => {
  const meta = metaOf(identity());
  expect(identityOn({ ...meta, name: 'windlass-0123456789abcdef0123-workspace' })).toEqual(identity());
  expect(identityOn({ ...meta, labels: { ...meta.labels, [keys.schema]: '2' } })).toBeUndefined();
  expect(identityOn({ ...meta, name: 'other' })).toBeUndefined();
  expect(identityOn({})).toBeUndefined();
});

it('a nonce is 64 hex, the same again, and another for any other part or key', () => {
  const key = new Uint8Array(32).fill(1);
  const parts = { installation: 'local', instanceId: 'i', generation: 1, kind: 'pods' };
  const nonce = createNonce(key, parts);
  expect(nonce).toMatch(/^[0-9a-f]{64}$/);
  expect(createNonce(key, { ...parts })).toBe(nonce);
  const others = [
    createNonce(new Uint8Array(32).fill(2), parts),
    createNonce(key, { ...parts, installation: 'other' }),
    createNonce(key, { ...parts, instanceId: 'j' }),
    createNonce(key, { ...parts, generation: 2 }),
    createNonce(key, { ...parts, kind: 'persistentvolumeclaims' }),
  ];
  expect(new Set([nonce, ...others]).size).toBe(6);
});
