import { createRequire } from 'node:module';
import type { KubeObject } from '../types.ts';
import type { ListResult } from './list.ts';
import type { Form } from './negotiate.ts';
import { apiVersionOf, type Resource } from './resources.ts';
import { columnsOf, rowCells } from './table.ts';

const meta = 'meta.k8s.io/v1';

export interface Rendering {
  readonly form: Form;
  readonly resource: Resource;
  readonly query: URLSearchParams;
  readonly now: number;
}

const partial = (object: KubeObject) => ({ kind: 'PartialObjectMetadata', apiVersion: meta, metadata: object.metadata });

function row(object: KubeObject, { resource, query, now }: Rendering) {
  const include = query.get('includeObject') ?? 'Metadata';
  const cells = rowCells(resource, object, now);
  if (include === 'None') return { cells };
  return { cells, object: include === 'Object' ? object : partial(object) };
}

/** One object in the form asked for; in a watch only the first Table carries its columns. */
export function renderObject(object: KubeObject, how: Rendering, withColumns = true): unknown {
  if (how.form.as === 'PartialObjectMetadata') return partial(object);
  if (how.form.as !== 'Table') return object;
  return {
    kind: 'Table',
    apiVersion: meta,
    metadata: { resourceVersion: object.metadata.resourceVersion },
    columnDefinitions: withColumns ? columnsOf(how.resource) : null,
    rows: [row(object, how)],
  };
}

/** Items of a list carry no kind of their own, as on the real server. */
function bare(object: KubeObject): unknown {
  const { kind: _kind, apiVersion: _apiVersion, ...rest } = object;
  return rest;
}

export function renderList(list: ListResult, how: Rendering): unknown {
  const { resource, form } = how;
  if (form.as === 'Table') {
    const rows = list.items.map((object) => row(object, how));
    return { kind: 'Table', apiVersion: meta, metadata: list.metadata, columnDefinitions: columnsOf(resource), rows };
  }
  if (form.as === 'PartialObjectMetadata') {
    return { kind: 'PartialObjectMetadataList', apiVersion: meta, metadata: list.metadata, items: list.items.map(partial) };
  }
  return {
    kind: `${resource.kind}List`,
    apiVersion: apiVersionOf(resource),
    metadata: list.metadata,
    items: list.items.map(bare),
  };
}

/** Few clients want YAML: its library is not loaded before one does. */
const library = (): typeof import('yaml') => createRequire(import.meta.url)('yaml');

export const serialize = (value: unknown, form: Pick<Form, 'yaml'>): string =>
  form.yaml ? library().stringify(value) : JSON.stringify(value);
