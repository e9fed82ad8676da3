import type { z } from 'zod';
import { type ErrorCode, type Issue, refuse, WindlassError } from '../errors.ts';
import { maxPayloadBytes, payloadVersion } from './catalog.ts';

/** zod's issues as ours: `env.FOO`, one for each unknown key. */
export function issuesOf(error: z.ZodError, root = ''): Issue[] {
  return error.issues.flatMap((issue) => {
    const base = [root, ...issue.path.map(String)].filter((part) => part !== '').join('.');
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => ({ path: base === '' ? key : `${base}.${key}`, message: 'is not a known field' }));
    }
    return [{ path: base, message: issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message }];
  });
}

/** Size, version and shape of a payload, in that order; throws with every issue at once. */
export function parsePayload<S extends z.ZodType>(schema: S, payload: unknown, what: string): z.output<S> {
  if (payload === null || typeof payload !== 'object' || Array.isArray(payload)) {
    throw new WindlassError('payload_invalid', `The ${what} request must be an object.`, {
      issues: [{ path: '', message: 'must be an object' }],
    });
  }
  const bytes = Buffer.byteLength(JSON.stringify(payload));
  if (bytes > maxPayloadBytes) {
    throw new WindlassError(
      'payload_too_large',
      `The ${what} request has ${bytes} bytes; at most ${maxPayloadBytes} are allowed.`,
    );
  }
  refuseNewerVersion(payload as Record<string, unknown>);
  const result = schema.safeParse(payload);
  if (!result.success) refuse('payload_invalid' satisfies ErrorCode, `The ${what} request is not valid`, issuesOf(result.error));
  return result.data as z.output<S>;
}

/** A newer major version is not wrong, only not ours to judge: a newer worker will know it. */
export function refuseNewerVersion(payload: Record<string, unknown>): void {
  const version = payload.version;
  if (typeof version === 'number' && Number.isInteger(version) && version > payloadVersion) {
    throw new WindlassError(
      'schema_unsupported',
      `Payload version ${version} is newer than version ${payloadVersion}, which this Windlass knows.`,
      {
        issues: [{ path: 'version', message: `must be ${payloadVersion}` }],
      },
    );
  }
}
