import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Mask } from '../../../src/agent/program/mask.ts';

function masked(secrets: string[], pieces: (string | Uint8Array)[]): string {
  const stream = new Mask(secrets).stream();
  const shown = pieces.map((piece) => stream.push(typeof piece === 'string' ? Buffer.from(piece) : piece));
  return Buffer.concat([...shown, stream.end()]).toString();
}

it('hides a value wherever it is cut', () => {
  const text = 'before s3cr3t-value after';
  for (let at = 0; at <= text.length; at++) {
    expect(masked(['s3cr3t-value'], [text.slice(0, at), text.slice(at)])).toBe('before *** after');
  }
});

it('hides base64 at every alignment, also wrapped, and URL-encoded and JSON-quoted values', () => {
  const secret = 'pa/ss?"wörd\nline+two';
  for (const prefix of ['', 'u', 'us', 'use', 'user:']) {
    const encoded = Buffer.from(`${prefix}${secret}!`).toString('base64');
    const shown = masked([secret], [encoded]);
    expect(shown).toContain('***');
    expect(shown.replace('***', '').length).toBeLessThanOrEqual(4 + 4 + Math.ceil(prefix.length * (4 / 3)));
    expect(masked([secret], [encoded.replaceAll(/(.{7})/g, '$1\n')]).replaceAll('\n', '').length).toBeLessThan(20);
  }
  expect(masked([secret], [encodeURIComponent(secret)])).toBe('***');
  expect(masked([secret], [encodeURIComponent(secret).toLowerCase()])).toBe('***');
  expect(masked([secret], [JSON.stringify({ secret })])).toBe('{"secret":"***"}');
  expect(masked(['a key of two words'], ['a+key+of+two+words'])).toBe('***');
});

it('hides single lines of a value of several lines', () => {
  const key = '-----BEGIN-----\nMIIEowIBAAKCAQEA\n-----END-----';
  expect(masked([key], ['> MIIEowIBAAKCAQEA <'])).toBe('> *** <');
  expect(masked([key], [key.replaceAll('\n', '\r\n')])).toBe('***');
});

it('hides all of overlapping and nested values', () => {
  expect(masked(['abcdef', 'defghi'], ['xabcdefghix'])).toBe('x***x');
  expect(masked(['secret', 'secret-longer'], ['secret-longer|secret|secret-lo'])).toBe('***|***|***-lo');
});

it('shows what cannot be part of a value at once, and everything at the end', () => {
  const stream = new Mask(['token']).stream();
  expect(stream.push(Buffer.from('Password: ')).toString()).toBe('Password: ');
  expect(stream.push(Buffer.from('5% to')).toString()).toBe('5% ');
  expect(stream.end().toString()).toBe('to');
});

it('leaves other bytes as they are, whatever the chunks', () => {
  const pieces = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 10 });
  fc.assert(
    fc.property(pieces, (chunks) => {
      const stream = new Mask(['a secret that no byte array holds']).stream();
      expect(Buffer.concat([...chunks.map((chunk) => stream.push(chunk)), stream.end()])).toEqual(Buffer.concat(chunks));
    }),
  );
});

it('never shows a value that the text holds, whatever the values, the text around and the chunks', () => {
  const letters = (min: number) => fc.string({ unit: fc.constantFrom('a', 'b', '\n', 'c'), minLength: min, maxLength: 12 });
  const secret = letters(3).filter((text) => text.replaceAll('\n', '').length >= 3);
  fc.assert(
    fc.property(fc.array(secret, { minLength: 1, maxLength: 3 }), fc.array(letters(0)), fc.nat(5), (secrets, noise, size) => {
      const text = noise.map((part, at) => part + secrets[at % secrets.length]).join('');
      const pieces = text.match(new RegExp(`[^]{1,${size + 1}}`, 'g')) ?? [];
      const shown = masked(secrets, pieces).replaceAll('\n', '').split('***');
      for (const value of secrets) for (const part of shown) expect(part).not.toContain(value.replaceAll('\n', ''));
    }),
  );
});
