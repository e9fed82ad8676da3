import { z } from 'zod';

/** Control, format, surrogate, private and separator characters; the plain space is allowed inside. */
const forbidden = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;

/** Why this is no id (contract §4), or undefined when it is one. */
export function idProblem(id: string): string | undefined {
  if (id === '') return 'must not be empty';
  if ([...id].length > 128) return 'must have at most 128 characters';
  if (id !== id.normalize('NFC')) return 'must be in Unicode normal form C';
  if (forbidden.test(id)) return 'must not have control, format, surrogate or separator characters';
  if (id.trim() !== id) return 'must not start or end with a space';
  if (id === '.' || id === '..') return 'must not be "." or ".."';
  return undefined;
}

/** A name that a caller chooses: instance, owner, task, session, environment. */
export const idSchema = z.string().superRefine((id, context) => {
  const problem = idProblem(id);
  if (problem !== undefined) context.addIssue({ code: 'custom', message: problem });
});
