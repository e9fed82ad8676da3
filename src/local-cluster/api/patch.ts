import jsonPatch, { type Operation } from 'fast-json-patch';
import type { KubeObject } from '../types.ts';
import { ApiError, badRequest } from './status.ts';
import { strategicMerge } from './strategic-merge.ts';

/** RFC 7386: null removes, objects merge, everything else replaces. */
function mergePatch(target: unknown, patch: unknown): unknown {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch;
  const isMap = typeof target === 'object' && target !== null && !Array.isArray(target);
  const result: Record<string, unknown> = isMap ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = mergePatch(result[key], value);
  }
  return result;
}

/** RFC 6902. A failed `test`, a missing path or a bad operation is 422, as the server answers it. */
export function applyJsonPatch<T>(object: T, operations: unknown): T {
  if (!Array.isArray(operations)) {
    throw badRequest('error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp');
  }
  try {
    return jsonPatch.applyPatch(structuredClone(object), operations as Operation[], true).newDocument;
  } catch (error) {
    const cause = error instanceof Error ? error.message.split('\n')[0]! : String(error);
    throw new ApiError(422, 'Invalid', 'the server rejected our request due to an error in our request', {
      causes: [{ message: cause }],
    });
  }
}

export type PatchType = 'application/json-patch+json' | 'application/merge-patch+json' | 'application/strategic-merge-patch+json';

/** The object after the patch; the original is not touched. */
export function applyPatch(type: PatchType, object: KubeObject, patch: unknown): KubeObject {
  if (type === 'application/json-patch+json') return applyJsonPatch(object, patch);
  if (type === 'application/strategic-merge-patch+json') return structuredClone(strategicMerge(object, patch));
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) {
    throw badRequest('error decoding patch: a merge patch must be a JSON object');
  }
  return structuredClone(mergePatch(object, patch)) as KubeObject;
}
