import type { RuntimeRefusal } from '../types.ts';

export interface StatusCause {
  readonly reason?: string;
  readonly message: string;
  readonly field?: string;
}

export interface StatusDetails {
  readonly name?: string;
  readonly group?: string;
  readonly kind?: string;
  readonly uid?: string;
  readonly causes?: readonly StatusCause[];
  readonly retryAfterSeconds?: number;
}

/** The API's own answer object, for failures and for deletes. */
export interface Status {
  readonly kind: 'Status';
  readonly apiVersion: 'v1';
  readonly metadata: { readonly continue?: string };
  readonly status: 'Success' | 'Failure';
  readonly message?: string;
  readonly reason?: string;
  readonly details?: StatusDetails;
  readonly code?: number;
}

/** Names a resource the way the server's messages do. */
export interface Named {
  readonly resource: string;
  readonly group: string;
  readonly kind: string;
}

export class ApiError extends Error {
  readonly code: number;
  readonly status: Status;
  constructor(code: number, reason: string, message: string, details?: StatusDetails, metadata: Status['metadata'] = {}) {
    super(message);
    this.code = code;
    this.status = {
      kind: 'Status',
      apiVersion: 'v1',
      metadata,
      status: 'Failure',
      message,
      ...(reason ? { reason } : {}),
      ...(details ? { details } : {}),
      code,
    };
  }
}

const qualified = (of: Named): string => (of.group ? `${of.resource}.${of.group}` : of.resource);
const qualifiedKind = (of: Named): string => (of.group ? `${of.kind}.${of.group}` : of.kind);
const detailsOf = (of: Named, name: string, kind = of.resource): StatusDetails => ({
  ...(name ? { name } : {}),
  ...(of.group ? { group: of.group } : {}),
  kind,
});

export const badRequest = (message: string): ApiError => new ApiError(400, 'BadRequest', message);

export const notFound = (of: Named, name: string): ApiError =>
  new ApiError(404, 'NotFound', `${qualified(of)} "${name}" not found`, detailsOf(of, name));

export const noSuchPath = (): ApiError => new ApiError(404, 'NotFound', 'the server could not find the requested resource', {});

export const methodNotAllowed = (): ApiError =>
  new ApiError(405, 'MethodNotAllowed', 'the server does not allow this method on the requested resource', {});

export const alreadyExists = (of: Named, name: string, goes: boolean): ApiError => {
  const message = `${goes ? 'object is being deleted: ' : ''}${qualified(of)} "${name}" already exists`;
  return new ApiError(409, 'AlreadyExists', message, detailsOf(of, name));
};

export const conflict = (of: Named, name: string, why: string): ApiError =>
  new ApiError(409, 'Conflict', `Operation cannot be fulfilled on ${qualified(of)} "${name}": ${why}`, detailsOf(of, name));

/** Failed delete preconditions name the kind, not the resource. */
export const preconditionFailed = (of: Named, name: string, why: string): ApiError =>
  new ApiError(
    409,
    'Conflict',
    `Operation cannot be fulfilled on ${qualifiedKind(of)} "${name}": ${why}`,
    detailsOf(of, name, of.kind),
  );

export const forbidden = (of: Named, name: string, why: string, causes?: readonly StatusCause[]): ApiError =>
  new ApiError(403, 'Forbidden', `${qualified(of)}${name ? ` "${name}"` : ''} is forbidden: ${why}`, {
    ...detailsOf(of, name),
    ...(causes ? { causes } : {}),
  });

export const expired = (message: string, metadata: Status['metadata'] = {}): ApiError =>
  new ApiError(410, 'Expired', message, undefined, metadata);

export const internalError = (message: string): ApiError =>
  new ApiError(500, 'InternalError', `Internal error occurred: ${message}`, { causes: [{ message }] });

/** One broken rule; `message` is worded as the server's field errors are. */
export interface FieldError {
  readonly reason:
    | 'FieldValueRequired'
    | 'FieldValueInvalid'
    | 'FieldValueNotSupported'
    | 'FieldValueDuplicate'
    | 'FieldValueForbidden'
    | 'FieldValueNotFound'
    | 'FieldValueTooLong';
  readonly field: string;
  readonly message: string;
}

export function invalid(of: Named, name: string, errors: readonly FieldError[]): ApiError {
  const texts = errors.map((error) => `${error.field}: ${error.message}`);
  const list = texts.length === 1 ? texts[0]! : `[${texts.join(', ')}]`;
  return new ApiError(422, 'Invalid', `${qualifiedKind(of)} "${name}" is invalid: ${list}`, {
    ...detailsOf(of, name, of.kind),
    causes: errors.map(({ reason, message, field }) => ({ reason, message, field })),
  });
}

export const isRefusal = (error: unknown): error is RuntimeRefusal =>
  typeof error === 'object' && error !== null && 'status' in error && typeof error.status === 'number' && 'message' in error;
