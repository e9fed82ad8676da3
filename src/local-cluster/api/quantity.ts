/**
 * Kubernetes quantities, counted in thousandths so that `100m` is a whole number. Apart from src/quantity.ts on purpose: a
 * server that shared the client's arithmetic would share its mistakes, and no test on this cluster could show them.
 */
const binary: Readonly<Record<string, bigint>> = {
  Ki: 1024n,
  Mi: 1024n ** 2n,
  Gi: 1024n ** 3n,
  Ti: 1024n ** 4n,
  Pi: 1024n ** 5n,
  Ei: 1024n ** 6n,
};
const decimal: Readonly<Record<string, number>> = { n: -9, u: -6, m: -3, '': 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };

const shape = /^([+-]?)(\d+(?:\.\d*)?|\.\d+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?$/;

/** digits × 10^exponent × unit, rounded up as the server does. */
function scaled(digits: bigint, exponent: number, unit: bigint): bigint {
  if (exponent >= 0) return digits * 10n ** BigInt(exponent) * unit;
  const divisor = 10n ** BigInt(-exponent);
  return (digits * unit + divisor - 1n) / divisor;
}

/** Thousandths; undefined when it is no quantity. */
export function parseQuantity(text: unknown): bigint | undefined {
  const match = shape.exec(typeof text === 'number' ? String(text) : typeof text === 'string' ? text : '');
  if (!match) return undefined;
  const [, sign, number = '', suffix = ''] = match;
  const [whole = '', fraction = ''] = number.split('.');
  const digits = BigInt(`${whole}${fraction}` || '0');
  const power =
    suffix.length > 1 && /^[eE]/.test(suffix) && !suffix.endsWith('i') ? Number(suffix.slice(1)) : (decimal[suffix] ?? 0);
  const value = scaled(digits, power + 3 - fraction.length, binary[suffix] ?? 1n);
  return sign === '-' ? -value : value;
}

/** The canonical form, in the family (binary or decimal) of `like`. */
export function formatQuantity(thousandths: bigint, like = ''): string {
  if (thousandths % 1000n !== 0n) return `${thousandths}m`;
  const value = thousandths / 1000n;
  if (value === 0n) return '0';
  const units: [string, bigint][] = like.endsWith('i')
    ? Object.entries(binary)
    : Object.entries(decimal)
        .filter(([, exponent]) => exponent > 0)
        .map(([suffix, exponent]) => [suffix, 10n ** BigInt(exponent)]);
  const best = units.filter(([, factor]) => value % factor === 0n).at(-1);
  return best ? `${value / best[1]}${best[0]}` : String(value);
}
