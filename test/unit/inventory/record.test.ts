import { describe, expect, test } from 'vitest';
import { decodeRecord, encodeFields, encodeSet, freshFields } from '../../../src/inventory/record.ts';
import type { InstanceRecord } from '../../../src/inventory/types.ts';
import { instanceSchema, toEvent, toInstance } from '../../../src/inventory/view.ts';

const stored = (more: Partial<InstanceRecord> = {}): Record<string, string> => ({
  ...freshFields({ instanceId: 'a', hash: 'h', owner: 'ann' }),
  ...encodeFields({
    generation: 1796050594648,
    run: 1,
    fence: '100000000000000000000',
    request: { payload: { profile: 'node' }, requestHash: 'x' },
    cluster: 'default',
    profile: 'node',
    app: '',
    attemptsLeft: 3,
    limits: {},
    lifetime: null,
    createdAt: 1796050594648,
    deadlineAt: 1796050594649,
    ...more,
  }),
  _begun: '1-1',
});

const full: Partial<InstanceRecord> = {
  app: 'shell',
  exitCode: 0,
  pod: { name: 'p', uid: 'u', node: 'n', ip: '10.0.0.1', createdByGeneration: 1 },
  workspace: { mode: 'managed_pvc', claimName: 'c', claimUid: 'cu', created: true, createdByGeneration: 1 },
  agent: { id: 'g', port: 8765, transport: 'port_forward', state: 'ready' },
  hashes: { cluster: 'c', profile: 'p', template: 't' },
  stages: [{ name: 'pod', state: 'waiting', checkpoint: 'pod_created', startedAt: 1796050594648, wait: 'pulling' }],
  failure: {
    code: 'crash_loop',
    message: 'm',
    retriable: false,
    issues: [],
    hint: 'h',
    stage: 'pod',
    generation: 1,
    run: 1,
    evidence: { tail: 'x' },
    attemptsLeft: 0,
    at: 1,
  },
  readyAt: 1796050594650,
};

describe('a record', () => {
  test('comes back as it was stored, fences past 2^53 included', () => {
    expect(decodeRecord(stored(full))).toMatchObject({ ...full, fence: '100000000000000000000', removal: null });
    expect(decodeRecord({})).toBeUndefined();
  });

  test.each([{ schema: '2' }, { novelty: '1' }, { state: 'hibernating' }, { intent: 'maybe' }])(
    'with %o is of a newer version',
    (newer) => {
      expect(() => decodeRecord({ ...stored(), ...newer } as Record<string, string>)).toThrow(
        expect.objectContaining({ code: 'record_newer' }),
      );
    },
  );

  test('that lacks a field is a broken rule', () => {
    const { owner: _owner, ...rest } = stored();
    expect(() => decodeRecord(rest)).toThrow(expect.objectContaining({ code: 'invariant_broken' }));
  });

  test('takes no value that would not come back, and none that handlers may not set', () => {
    for (const wrong of [
      { restartCount: 1.5 },
      { restartCount: Number.NaN },
      { namespace: 1 },
      { unknown: 'x' },
      { pod: undefined },
    ]) {
      expect(() => encodeSet(wrong as never)).toThrow(expect.objectContaining({ code: 'invariant_broken' }));
    }
    expect(() => encodeSet({ removeUpTo: 0 })).toThrow(expect.objectContaining({ code: 'invariant_broken' }));
    expect(encodeSet(undefined)).toEqual({});
  });
});

describe('an instance', () => {
  test.each([
    ['fresh', {}],
    ['full', full],
  ])('as shown from a %s record has the shape of the contract', (_name, more) => {
    const shown = toInstance(decodeRecord(stored(more)) as InstanceRecord);
    expect(instanceSchema.parse(shown)).toEqual(shown);
  });

  test('shows times as RFC 3339, and no nonce, fence, run or request', () => {
    const creates = { pods: { kind: 'pods' as const, name: 'p', nonce: 'NONCE', generation: 1, sentAt: 0, open: false } };
    const shown = toInstance(decodeRecord(stored({ ...full, creates })) as InstanceRecord);
    expect(shown).toMatchObject({ createdAt: '2026-11-30T14:56:34.648Z', app: 'shell', exitCode: 0, expiresAt: null });
    expect(Object.keys(shown)).not.toContain('request');
    expect(JSON.stringify(shown)).not.toMatch(/NONCE|100000000000000000000/);
  });

  test('event shows its numbers first', () => {
    const event = { note: 1, type: 'ready', at: '2026-11-30T14:56:34.648Z', seq: 2, instanceId: 'a', generation: 1 };
    expect(Object.keys(toEvent(event))).toEqual(['seq', 'instanceId', 'generation', 'type', 'at', 'note']);
  });
});
