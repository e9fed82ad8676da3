import { describe, expect, it } from 'vitest';
import { WindlassError } from '../../../src/errors.ts';
import { abortReason, errorOfAnswer, errorOfTransport, isAlreadyExists, isAmbiguous } from '../../../src/kubernetes/api-error.ts';

const create = { verb: 'create', resource: 'pods', name: 'windlass-x' };
const answer = (status: number, message: string, reason = '') =>
  errorOfAnswer(create, { status, body: JSON.stringify({ message, reason }) });

describe('answers', () => {
  const cases: [number, string, string, string, boolean][] = [
    [
      403,
      'pods is forbidden: User "x" cannot create resource "pods" in API group "" in the namespace "n"',
      'Forbidden',
      'permission_denied',
      false,
    ],
    [
      403,
      'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1',
      'Forbidden',
      'quota_exceeded',
      false,
    ],
    [
      403,
      'pods "x" is forbidden: unable to create new content in namespace n because it is being terminated',
      'Forbidden',
      'namespace_terminating',
      false,
    ],
    [403, 'pods "x" is forbidden: violates PodSecurity "restricted:latest": privileged', 'Forbidden', 'policy_denied', false],
    [403, 'admission webhook "w.example" denied the request: no', 'Forbidden', 'policy_denied', false],
    [400, 'admission webhook "w.example" denied the request: no', 'BadRequest', 'policy_denied', false],
    [403, 'pods "x" is forbidden: maximum cpu usage per Container is 1', 'Forbidden', 'policy_denied', false],
    [404, 'namespaces "n" not found', 'NotFound', 'namespace_not_found', false],
    [409, 'pods "x" already exists', 'AlreadyExists', 'name_conflict', false],
    [409, 'Operation cannot be fulfilled on resourcequotas "q": the object has been modified', 'Conflict', 'conflict', false],
    [422, 'Pod "x" is invalid: spec.containers[0].image: Required value', 'Invalid', 'template_rejected', false],
    [429, 'too many requests', 'TooManyRequests', 'throttled', false],
    [401, 'Unauthorized', 'Unauthorized', 'permission_denied', false],
    [
      500,
      'Internal error occurred: failed calling webhook "w": connection refused',
      'InternalError',
      'webhook_unavailable',
      true,
    ],
    [500, 'etcdserver: request timed out', 'InternalError', 'cluster_unreachable', true],
    [503, 'apiserver not ready', 'ServiceUnavailable', 'cluster_unreachable', true],
    [504, 'request did not complete within requested timeout', 'Timeout', 'cluster_unreachable', true],
  ];
  it.each(cases)('C53 C55 %i %s → %s', (status, message, reason, code, ambiguous) => {
    const error = answer(status, message, reason);
    expect(error.code).toBe(code);
    expect(isAmbiguous(error)).toBe(ambiguous);
    expect(isAlreadyExists(error)).toBe(reason === 'AlreadyExists');
  });

  it('names the verb that is missing', () => {
    expect(answer(403, 'pods is forbidden: User "x" cannot create resource "pods"').message).toMatch(
      /cannot create resource "pods"/,
    );
  });

  it('keeps what Retry-After asks for, in seconds or as a date, within reason', () => {
    const waitFor = (retryAfter: string) => errorOfAnswer(create, { status: 429, body: '', retryAfter }).retryAfterMs;
    expect(waitFor('2')).toBe(2000);
    expect(waitFor('-5')).toBe(0);
    expect(waitFor('99999')).toBe(600_000);
    expect(waitFor(new Date(Date.now() + 30_000).toUTCString())).toBeGreaterThan(25_000);
    expect(waitFor('soon')).toBeUndefined();
  });

  it('shows a page that is no Status cleaned and short', () => {
    const error = errorOfAnswer(create, { status: 502, body: `<html>\u0000${'x'.repeat(9000)} token=abc` });
    expect(error.code).toBe('cluster_unreachable');
    expect(error.message.length).toBeLessThan(2000);
    expect(error.message).not.toMatch(/abc|\u0000/);
  });
});

describe('failures without an answer', () => {
  const failing = (code: string, wrap: (error: Error) => unknown = (error) => error) =>
    errorOfTransport(create, wrap(Object.assign(new Error(code), { code })));
  it.each([
    'ECONNREFUSED',
    'ENOTFOUND',
    'EAI_AGAIN',
    'UND_ERR_CONNECT_TIMEOUT',
    'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    'CERT_HAS_EXPIRED',
  ])('%s was never sent', (code) => {
    expect(failing(code)).toMatchObject({ code: 'cluster_unreachable', ambiguous: false });
  });
  it.each(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET', 'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT', 'UND_ERR_ABORTED'])(
    '%s may have been',
    (code) => {
      expect(failing(code)).toMatchObject({ code: 'cluster_unreachable', ambiguous: true });
    },
  );

  it('finds the code inside wrappers', () => {
    expect(failing('ECONNREFUSED', (cause) => new TypeError('fetch failed', { cause })).ambiguous).toBe(false);
    expect(failing('ECONNREFUSED', (cause) => new AggregateError([cause])).ambiguous).toBe(false);
    expect(errorOfTransport(create, new DOMException('late', 'TimeoutError'))).toMatchObject({
      ambiguous: true,
      reason: 'TimeoutError',
    });
  });
});

it("an abort keeps the caller's own reason", () => {
  expect(abortReason(AbortSignal.abort(new WindlassError('lease_lost'))).code).toBe('lease_lost');
  expect(abortReason(AbortSignal.abort()).code).toBe('interrupted');
});
