import type { FieldError } from './status.ts';

const quote = (value: unknown): string => (typeof value === 'string' ? JSON.stringify(value) : String(JSON.stringify(value)));

export const required = (field: string, detail = ''): FieldError => ({
  reason: 'FieldValueRequired',
  field,
  message: detail ? `Required value: ${detail}` : 'Required value',
});
export const invalidValue = (field: string, value: unknown, detail: string): FieldError => ({
  reason: 'FieldValueInvalid',
  field,
  message: `Invalid value: ${quote(value)}: ${detail}`,
});
export const unsupported = (field: string, value: unknown, supported: readonly string[]): FieldError => ({
  reason: 'FieldValueNotSupported',
  field,
  message: `Unsupported value: ${quote(value)}: supported values: ${supported.map(quote).join(', ')}`,
});
export const duplicate = (field: string, value: unknown): FieldError => ({
  reason: 'FieldValueDuplicate',
  field,
  message: `Duplicate value: ${quote(value)}`,
});
export const forbiddenField = (field: string, detail: string): FieldError => ({
  reason: 'FieldValueForbidden',
  field,
  message: `Forbidden: ${detail}`,
});
export const missing = (field: string, value: unknown): FieldError => ({
  reason: 'FieldValueNotFound',
  field,
  message: `Not found: ${quote(value)}`,
});
export const tooLong = (field: string, bytes: number): FieldError => ({
  reason: 'FieldValueTooLong',
  field,
  message: `Too long: may not be more than ${bytes} bytes`,
});
