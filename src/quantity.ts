import { WindlassError } from './errors.ts';

/** number [suffix | exponent], as Kubernetes reads quantities. */
const grammar = /^([+-]?)(\d+\.?\d*|\.\d+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?$/;

const decimal: Readonly<Record<string, number>> = { n: -9, u: -6, m: -3, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
const binary: Readonly<Record<string, number>> = { Ki: 10, Mi: 20, Gi: 30, Ti: 40, Pi: 50, Ei: 60 };

/** Longer ones are not typed by people; it bounds the arithmetic. */
const maxLength = 64;

/**
 * A quantity in billionths (`1` = 1_000_000_000n), the finest unit there is; anything finer is rounded up, away from
 * zero, as Kubernetes does. Exact for every size. Throws `payload_invalid` for text that is none.
 */
export function parseQuantity(text: string): bigint {
  const match = text.length > maxLength ? null : grammar.exec(text);
  if (!match)
    throw new WindlassError(
      'payload_invalid',
      `"${text.slice(0, maxLength)}" is no Kubernetes quantity such as 10Gi, 500m or 2.`,
    );
  const [, sign, digits = '0', suffix = '', exponent] = match;
  const [whole = '', fraction = ''] = digits.split('.');
  let value = BigInt(whole + fraction || '0');
  let power = 9 - fraction.length + (exponent === undefined ? (decimal[suffix] ?? 0) : Number(exponent));
  const shift = binary[suffix];
  if (shift !== undefined) value <<= BigInt(shift);
  let divisor = 1n;
  if (power < 0) {
    divisor = 10n ** BigInt(-power);
    power = 0;
  }
  value = value * 10n ** BigInt(power);
  const rounded = (value + divisor - 1n) / divisor;
  return sign === '-' ? -rounded : rounded;
}

/** Below, at or above zero, for sorting: 1Gi equals 1024Mi. */
export function compareQuantity(a: string, b: string): number {
  const difference = parseQuantity(a) - parseQuantity(b);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

/** The smaller of the two, as it was typed; the first when they are equal. */
export function minQuantity(a: string, b: string): string {
  return compareQuantity(a, b) <= 0 ? a : b;
}
