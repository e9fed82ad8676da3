import { ApiError } from './status.ts';

/** In which form the caller wants objects. */
export interface Form {
  readonly as: 'Object' | 'Table' | 'PartialObjectMetadata';
  readonly yaml: boolean;
}

const transforms: Readonly<Record<string, Form['as']>> = {
  Table: 'Table',
  PartialObjectMetadata: 'PartialObjectMetadata',
  PartialObjectMetadataList: 'PartialObjectMetadata',
};

function formOf(entry: string): Form | undefined {
  const [type = '', ...parameters] = entry.split(';').map((part) => part.trim());
  const wanted = Object.fromEntries(parameters.map((part) => part.split('=', 2) as [string, string]));
  const yaml = type === 'application/yaml';
  if (!yaml && !['application/json', 'application/*', '*/*', ''].includes(type)) return undefined;
  if (!wanted.as) return { as: 'Object', yaml };
  const as = wanted.g === 'meta.k8s.io' ? transforms[wanted.as] : undefined;
  return as && { as, yaml };
}

/** The first media type in `Accept` that is served; 406 with the served ones otherwise. */
export function negotiate(accept: string | undefined): Form {
  for (const entry of (accept || '*/*').split(',')) {
    const form = formOf(entry);
    if (form) return form;
  }
  throw new ApiError(
    406,
    'NotAcceptable',
    'only the following media types are accepted: application/json, application/yaml, application/json;stream=watch (the embedded cluster writes no protobuf)',
  );
}
