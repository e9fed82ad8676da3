import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { assertLabelName, assertObjectName, assertPort, assertUid } from '../../../src/kubernetes/names.ts';
import { sanitize } from '../../../src/kubernetes/sanitize.ts';
import { compareQuantity, minQuantity, parseQuantity } from '../../../src/quantity.ts';

describe('quantities', () => {
  const nano = 1_000_000_000n;
  const cases: [string, bigint][] = [
    ['1', nano],
    ['0', 0n],
    ['500m', nano / 2n],
    ['+2', 2n * nano],
    ['-1', -nano],
    ['.5', nano / 2n],
    ['5.', 5n * nano],
    ['1.5Gi', 1536n * 1024n * 1024n * nano],
    ['1e3', 1000n * nano],
    ['1E3', 1000n * nano],
    ['1E', 10n ** 18n * nano],
    ['2e-3', nano / 500n],
    ['1Ei', 2n ** 60n * nano],
    ['8Pi', 2n ** 53n * nano],
    ['3k', 3000n * nano],
    ['7n', 7n],
    ['0.1n', 1n],
    ['-0.1n', -1n],
    ['12u', 12_000n],
  ];
  it.each(cases)('%s', (text, value) => {
    expect(parseQuantity(text)).toBe(value);
  });

  it.each(['', ' 1', '1 Gi', '1gi', '1K', '.', 'Gi', '1e', '1.2.3', '0x10', '1e3Ki', 'Infinity', '9'.repeat(65)])(
    'refuses "%s"',
    (text) => {
      expect(() => parseQuantity(text)).toThrow(expect.objectContaining({ code: 'payload_invalid' }));
    },
  );

  it('compares by value and keeps what was typed', () => {
    expect(compareQuantity('1Gi', '1024Mi')).toBe(0);
    expect(compareQuantity('1G', '1Gi')).toBe(-1);
    expect(minQuantity('2', '1500m')).toBe('1500m');
    expect(minQuantity('1Gi', '1024Mi')).toBe('1Gi');
  });

  it('orders whole numbers as numbers, with every suffix', () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat(), fc.constantFrom('', 'k', 'Ki', 'm', 'Gi', 'n'), (a, b, suffix) => {
        expect(compareQuantity(`${a}${suffix}`, `${b}${suffix}`)).toBe(Math.sign(a - b));
      }),
    );
  });
});

describe('sanitize (I19)', () => {
  const cases: [string, string][] = [
    ['a\u0000b\u001b[31mred\u001b[0m\u0007\u202e', 'abred'],
    ['line\r\nnext\ttab', 'line\nnext\ttab'],
    ['pull https://user:pa55@registry.example/x failed', 'pull https://***@registry.example/x failed'],
    ['git clone ssh://deploy:key@host/repo', 'git clone ssh://***@host/repo'],
    ['GET https://h/x?token=abc&y=1 403', 'GET https://h/x?*** 403'],
    ['Authorization: Bearer abcdefghijklmnop', 'Authorization: ***'],
    ['header "Bearer abcdefghijklmnop"', 'header "Bearer ***"'],
    ['DB_PASSWORD=hunter2 rest', 'DB_PASSWORD=*** rest'],
    ['{"api_key": "abc", "b": 1}', '{"api_key": "***", "b": 1}'],
    ['jwt eyJhbGciOi.eyJzdWIiOi.c2ln end', 'jwt *** end'],
    ['ghp_abcdefghij0123456789', '***'],
    ['-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----', '[private key]'],
    ['plain words stay', 'plain words stay'],
  ];
  it.each(cases)('%j', (text, clean) => {
    expect(sanitize(text)).toBe(clean);
  });

  it('keeps the end, within the cap, as well-formed text', () => {
    const clean = sanitize(`start ${'😀'.repeat(5000)} the cause`, 101);
    expect(clean.length).toBeLessThanOrEqual(101);
    expect(clean.endsWith(' the cause')).toBe(true);
    expect(JSON.stringify(clean)).not.toMatch(/\\ud[89a-f]/i);
  });

  it('never gives control characters or more than the cap', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 3000 }), (text) => {
        const clean = sanitize(text, 500);
        expect(clean.length).toBeLessThanOrEqual(500);
        expect(clean).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
      }),
    );
  });
});

describe('the name guard (I16)', () => {
  const bad = ['', '.', '..', 'a..b', '-a', 'a-', 'A', 'a/b', 'a b', 'ä', 'a'.repeat(254), 'a%2f', null, undefined, 5];
  it.each(bad)('refuses %j as a name', (name) => {
    expect(() => assertObjectName(name)).toThrow(expect.objectContaining({ code: 'invariant_broken' }));
    expect(() => assertLabelName('container', name)).toThrow(expect.objectContaining({ code: 'invariant_broken' }));
  });

  it('C91: takes what is one', () => {
    for (const name of ['a', 'windlass-0123', 'data.example', '0'.repeat(253)])
      expect(() => assertObjectName(name)).not.toThrow();
    expect(() => assertLabelName('container', 'a.b')).toThrow();
    expect(() => assertLabelName('container', 'a'.repeat(64))).toThrow();
  });

  it('refuses an empty UID and no port', () => {
    for (const uid of ['', undefined, 'a b'])
      expect(() => assertUid(uid)).toThrow(expect.objectContaining({ code: 'invariant_broken' }));
    for (const port of [0, -1, 65536, 1.5, Number.NaN])
      expect(() => assertPort(port)).toThrow(expect.objectContaining({ code: 'invariant_broken' }));
  });
});
