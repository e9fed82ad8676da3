import { codeForKubernetesText, type ErrorCode } from '../error-codes.ts';
import { WindlassError, type WindlassErrorOptions } from '../errors.ts';
import { sanitize } from './sanitize.ts';

interface ApiErrorFacts extends WindlassErrorOptions {
  /** HTTP status; 0 = no answer came. */
  readonly status: number;
  /** `reason` of the Status object, such as AlreadyExists. */
  readonly reason: string;
  /** True when the request may have taken effect although we have no answer that says so (I5). */
  readonly ambiguous: boolean;
}

/** A failed call to a cluster. Callers look at `code` and the two predicates below, never at `status`. */
export class ApiError extends WindlassError {
  readonly status: number;
  readonly reason: string;
  readonly ambiguous: boolean;

  constructor(code: ErrorCode, message: string, facts: ApiErrorFacts) {
    const { status, reason, ambiguous, ...options } = facts;
    super(code, message, options);
    this.status = status;
    this.reason = reason;
    this.ambiguous = ambiguous;
  }
}

/** True = neither success nor failure: only a GET in a fresh context can tell (I5). */
export function isAmbiguous(error: unknown): boolean {
  return error instanceof ApiError && error.ambiguous;
}

/** True = an object of this name was there before the create was sent: ours by nonce, or somebody else's (I6). */
export function isAlreadyExists(error: unknown): boolean {
  return error instanceof ApiError && error.reason === 'AlreadyExists';
}

/** What was asked, for messages: `create pods "windlass-…"`. */
export interface Asked {
  readonly verb: string;
  readonly resource: string;
  readonly name?: string;
}

interface Answer {
  readonly status: number;
  readonly body: string;
  readonly retryAfter?: string | undefined;
}

const invalidCodes: Partial<Record<string, ErrorCode>> = {
  pods: 'template_rejected',
  persistentvolumeclaims: 'storage_failed',
};

/** A non-2xx answer as an error of ours. */
export function errorOfAnswer(asked: Asked, answer: Answer): ApiError {
  const { message: text, reason } = statusOf(answer.body);
  const code = codeOf(asked, answer.status, reason, text);
  const retryAfterMs = retryAfter(answer.retryAfter);
  return new ApiError(
    code,
    `${phrase(asked)} failed with HTTP ${answer.status}: ${sanitize(text, 1500) || reason || 'no text'}`,
    {
      status: answer.status,
      reason,
      ambiguous: answer.status >= 500,
      evidence: { verb: asked.verb, resource: asked.resource, status: answer.status, reason: sanitize(reason, 100) },
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    },
  );
}

function codeOf(asked: Asked, status: number, reason: string, text: string): ErrorCode {
  const byText = codeForKubernetesText(text);
  if (status >= 500) return byText === 'webhook_unavailable' ? byText : 'cluster_unreachable';
  if (status === 403) return byText ?? 'policy_denied';
  if (status === 401) return 'permission_denied';
  if (status === 429) return 'throttled';
  if (status === 409) return reason === 'AlreadyExists' ? 'name_conflict' : 'conflict';
  if (status === 410) return 'conflict';
  if (status === 404) return byText === 'namespace_not_found' ? byText : 'pod_disrupted';
  // A validating webhook may answer 400 or 422 with its own text.
  if (byText === 'policy_denied' || byText === 'quota_exceeded') return byText;
  if (asked.verb === 'create') return invalidCodes[asked.resource] ?? 'invariant_broken';
  return status === 400 ? 'conflict' : 'invariant_broken';
}

function statusOf(body: string): { message: string; reason: string } {
  try {
    const parsed: unknown = JSON.parse(body);
    if (parsed !== null && typeof parsed === 'object') {
      const { message, reason } = parsed as { message?: unknown; reason?: unknown };
      return { message: typeof message === 'string' ? message : '', reason: typeof reason === 'string' ? reason : '' };
    }
  } catch {
    // Not a Status: a proxy or load balancer in between answered with its own page; its text is all there is.
  }
  return { message: body.slice(0, 2000), reason: '' };
}

function retryAfter(header: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return Math.min(Math.max(seconds, 0), 600) * 1000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.min(Math.max(at - Date.now(), 0), 600_000);
}

/** Codes of a failure before the request left us: nothing can have taken effect. */
const neverSent =
  /^(ECONNREFUSED|ENOTFOUND|EAI_|EHOSTUNREACH|ENETUNREACH|ENETDOWN|EADDRNOTAVAIL|UND_ERR_CONNECT_TIMEOUT|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH|ERR_TLS_|ERR_SSL_|ENOENT|EACCES)/;

/** A request that got no whole answer: transport failure, timeout or abort. */
export function errorOfTransport(asked: Asked, thrown: unknown, options: { sent?: boolean } = {}): ApiError {
  const code = transportCode(thrown);
  const ambiguous = options.sent !== false && !neverSent.test(code);
  const text = thrown instanceof Error ? thrown.message : String(thrown);
  return new ApiError('cluster_unreachable', `${phrase(asked)} got no answer (${code || 'error'}): ${sanitize(text, 500)}`, {
    status: 0,
    reason: code,
    ambiguous,
    cause: thrown,
    evidence: { verb: asked.verb, resource: asked.resource, transport: code },
  });
}

/** Node wraps: fetch in `cause`, happy eyeballs in an AggregateError. */
function transportCode(thrown: unknown, depth = 0): string {
  if (thrown === null || typeof thrown !== 'object' || depth > 4) return '';
  const { code, cause, errors, name } = thrown as { code?: unknown; cause?: unknown; errors?: unknown[]; name?: unknown };
  if (typeof code === 'string' && code !== '') return code;
  const inner = transportCode(cause, depth + 1) || (Array.isArray(errors) ? transportCode(errors[0], depth + 1) : '');
  return inner || (typeof name === 'string' && name !== 'Error' ? name : '');
}

function phrase(asked: Asked): string {
  return `${asked.verb} ${asked.resource}${asked.name ? ` "${asked.name}"` : ''}`;
}

/** The reason of an abort as an error of ours: a caller's own WindlassError passes through unchanged. */
export function abortReason(signal: AbortSignal): WindlassError {
  const reason: unknown = signal.reason;
  if (reason instanceof WindlassError) return reason;
  return new WindlassError('interrupted', 'The call was given up before it was done.', { cause: reason });
}
