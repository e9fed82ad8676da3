import { type CodeRow, codeTable, type ErrorCode } from './error-codes.ts';

export type { ErrorCode } from './error-codes.ts';

/** One thing that is wrong with an input: `path` is stable (`profiles.node.workspace.size`), `message` says what would be right. */
export interface Issue {
  readonly path: string;
  readonly message: string;
}

export interface WindlassErrorOptions {
  readonly issues?: readonly Issue[];
  readonly hint?: string;
  readonly cause?: unknown;
  /** What was seen (conditions, last container state, events, log tail): sanitised text, stored with a failed launch. */
  readonly evidence?: Readonly<Record<string, unknown>>;
  /** How long the other side asked us to wait (HTTP Retry-After). */
  readonly retryAfterMs?: number;
}

/**
 * The one error class. `code` decides everything else (exit code, HTTP status, queue effect) through the table in
 * error-codes.ts; `message` is a sentence for the person who asked and never holds a secret.
 */
export class WindlassError extends Error {
  override readonly name = 'WindlassError';
  readonly code: ErrorCode;
  readonly issues: readonly Issue[];
  readonly hint: string;
  readonly evidence: Readonly<Record<string, unknown>> | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(code: ErrorCode, message?: string, options: WindlassErrorOptions = {}) {
    super(message ?? codeTable[code].sentence, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.issues = options.issues ?? [];
    this.hint = options.hint ?? codeTable[code].hint;
    this.evidence = options.evidence;
    this.retryAfterMs = options.retryAfterMs;
  }

  get row(): CodeRow {
    return codeTable[this.code];
  }

  get retriable(): boolean {
    return this.row.retriable;
  }
}

/** The wire form of a failure (contract §2). */
export interface ErrorBody {
  readonly code: ErrorCode;
  readonly message: string;
  readonly retriable: boolean;
  readonly issues: readonly Issue[];
  readonly hint: string;
}

export function errorBody(error: WindlassError): ErrorBody {
  return { code: error.code, message: error.message, retriable: error.retriable, issues: error.issues, hint: error.hint };
}

/** Any throwable as a WindlassError; what no adapter classified is `unclassified`, which is retried and counted. */
export function asWindlassError(thrown: unknown): WindlassError {
  if (thrown instanceof WindlassError) return thrown;
  const text = thrown instanceof Error ? thrown.message : String(thrown);
  return new WindlassError('unclassified', `Something unexpected happened: ${text.slice(0, 500)}`, { cause: thrown });
}

/** Throws `payload_invalid`-like errors with every issue at once; does nothing when there is none. */
export function refuse(code: ErrorCode, what: string, issues: readonly Issue[]): void {
  if (issues.length === 0) return;
  const list = issues.map((issue) => `${issue.path || '(root)'}: ${issue.message}`).join('; ');
  throw new WindlassError(code, `${what}: ${list}`.slice(0, 4000), { issues });
}
