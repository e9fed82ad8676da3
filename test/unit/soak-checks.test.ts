import { describe, expect, it } from 'vitest';
import type { AuditEntry } from '../../src/local-cluster/audit.ts';
import { faultRules, faultsMet, spared } from '../support/soak/api-faults.ts';
import { duplicatesOf } from '../support/soak/audit.ts';
import { secretSearch } from '../support/soak/secrets.ts';

const hash = '0123456789abcdef0123';
const did = (verb: string, name: string, uid?: string, code = 200): AuditEntry => ({
  at: '',
  verb,
  resource: name.endsWith('-workspace') ? 'persistentvolumeclaims' : 'pods',
  subresource: '',
  namespace: 'default',
  name,
  ...(uid === undefined ? {} : { uid }),
  code,
  ms: 1,
  userAgent: '',
});
const pod = `windlass-${hash}`;

describe('duplicates in an audit log', () => {
  it('are two Pods of one instance under two names, or one over another whose deletion nobody asked for', () => {
    expect(duplicatesOf([did('create', pod, 'a', 201), did('create', `${pod}-2`, 'b', 201)])).toEqual([`${hash} pods: a, b`]);
    expect(duplicatesOf([did('create', pod, 'a', 201), did('create', pod, 'b', 201)])).toEqual([`${hash} pods: a, b`]);
  });

  it('are also made by a create whose answer was dropped, since that was done', () => {
    expect(duplicatesOf([did('create', pod, 'a', 0), did('create', pod, 'b', 201)])).toHaveLength(1);
  });

  it('are not a refused create, one after a deletion, a claim beside its Pod, or what others made', () => {
    const entries = [
      did('create', pod, 'a', 201),
      did('create', pod, undefined, 409),
      did('create', pod, undefined, 0),
      did('delete', pod, 'a'),
      did('create', pod, 'b', 201),
      did('create', `${pod}-workspace`, 'c', 201),
      did('create', 'other', 'd', 201),
    ];
    expect(duplicatesOf(entries)).toEqual([]);
  });
});

describe('the faults that requests met', () => {
  const requests = (count: number, more: Partial<AuditEntry>) =>
    Array.from({ length: count }, () => ({ ...did('create', pod, 'a'), ...more }));
  const entries = [
    ...requests(300, {}),
    ...requests(1, { faults: ['commit_then_drop'] }),
    ...requests(400, { verb: 'get', subresource: 'exec' }),
    ...requests(100, { verb: 'delete' }),
  ];

  it('are counted for each kind of request that has faults, a stream by its name', () => {
    const met = faultsMet(entries);
    expect(met['create pods']).toEqual({ requests: 301, faults: 1 });
    expect(met['exec pods']).toEqual({ requests: 400, faults: 0 });
    expect(met['watch events']).toEqual({ requests: 0, faults: 0 });
  });

  it('are missed where many requests of a kind met none', () => {
    expect(spared(faultsMet(entries), 0.05)).toEqual(['no fault ever met exec pods, in 400 requests']);
    expect(spared(faultsMet(entries), 0)).toEqual([]);
  });
});

describe('the search for secrets', () => {
  const marker = 'soak0123456789abcdef';

  it.each(['', 'x', 'xy', 'xyz'])('finds one in base64 behind %j, in hex and as it is, with what stands around', (before) => {
    const search = secretSearch(marker);
    const text = `${before}${marker}-7 and more`;
    search.look('plain', text);
    search.look('base64', Buffer.from(text).toString('base64'));
    search.look('hex', Buffer.from(text).toString('hex'));
    expect(search.found()).toHaveLength(3);
    expect(search.found()[0]).toContain(marker);
  });

  it('finds nothing where nothing is', () => {
    const search = secretSearch(marker);
    search.look('other', Buffer.from('soak0123X56789abcdef'.repeat(100)).toString('base64'));
    expect(search.found()).toEqual([]);
  });
});

it('fault rules of a request add up to the asked rate, each with a seed of its own', () => {
  const rules = faultRules(0.05, 7) as { verb: string; resource: string; subresource?: string; rate: number; seed: number }[];
  const creates = rules.filter((rule) => rule.verb === 'create' && rule.resource === 'pods' && rule.subresource === undefined);
  expect(creates.reduce((sum, rule) => sum + rule.rate, 0)).toBeCloseTo(0.05);
  expect(new Set(rules.map((rule) => rule.seed)).size).toBe(rules.length);
});
