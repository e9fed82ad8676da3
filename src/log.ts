import { destination, type Logger as PinoLogger, pino, stdSerializers } from 'pino';

export type Logger = PinoLogger;

const secretKey = /(token|password|passwd|secret|authorization|cookie|nonce|credential|private_?key|sealed_?env|^env$)/i;
const maxDepth = 6;

/**
 * Logs go to stderr as NDJSON (stdout is for results). Whatever a call passes along, values under secret-looking keys
 * and passwords inside URLs never reach the output: pino's own redaction only knows fixed paths, one level deep.
 */
export function createLogger(level: string): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: () => `,"at":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }), log: (object) => redact(object, 0) as Record<string, unknown> },
      serializers: {
        err: (error: Error) => redact(stdSerializers.err(error), 0),
        error: (error: Error) => redact(stdSerializers.err(error), 0),
      },
      hooks: {
        logMethod(args, method) {
          // A lone error would become the message unmasked.
          const parts: unknown[] =
            args[0] instanceof Error ? [{ err: args[0] }, ...(args.length > 1 ? args.slice(1) : [args[0].message])] : args;
          method.apply(this, parts.map((part) => (typeof part === 'string' ? maskUrls(part) : part)) as typeof args);
        },
      },
    },
    destination({ fd: 2, sync: true }),
  );
}

/** `redis://user:password@host` → `redis://***@host`. */
export const maskUrls = (text: string): string => text.replace(/([a-z][a-z0-9+.-]*:\/\/)[^\s/@]+@/gi, '$1***@');

function redact(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return maskUrls(value);
  if (value === null || typeof value !== 'object' || value instanceof Error || value instanceof Date) return value;
  if (depth >= maxDepth) return '[deep]';
  if (Array.isArray(value)) return value.map((item) => redact(item, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, secretKey.test(key) && inner ? '[redacted]' : redact(inner, depth + 1)]),
  );
}
