import { createRequire } from 'node:module';
import type { Issue } from '../errors.ts';

/** Loaded by the first document: most verbs read none, and it would take a third of their start. */
const library = (): typeof import('yaml') => createRequire(import.meta.url)('yaml');

/** More than anybody needs; a few hundred bytes of nested aliases can otherwise expand to gigabytes. */
const maxAliases = 100;

export type YamlResult = { readonly value: unknown; readonly issues?: undefined } | { readonly issues: readonly Issue[] };

/**
 * One YAML (or JSON) document, strictly: duplicate keys, unknown tags and a second document are errors, since each
 * would silently drop something that was written. Issues carry line and column in their message.
 */
export function parseYaml(text: string, path = ''): YamlResult {
  const issue = (message: string): YamlResult => ({ issues: [{ path, message }] });
  if (text.includes('\0')) return issue('is not YAML: it contains a NUL character');
  const documents = library().parseAllDocuments(text, { strict: true, uniqueKeys: true, prettyErrors: true, stringKeys: true });
  if ('empty' in documents) return issue('is empty: one YAML document is needed');
  const found = documents.flatMap((document) => [...document.errors, ...document.warnings]);
  if (found.length > 0)
    return { issues: found.map((error) => ({ path, message: `is not valid YAML: ${oneLine(error.message)}` })) };
  if (documents.length > 1) return issue(`has ${documents.length} YAML documents: exactly one is needed`);
  try {
    return { value: documents[0]?.toJS({ maxAliasCount: maxAliases }) ?? null };
  } catch (error) {
    return issue(`is not valid YAML: ${oneLine((error as Error).message)}`);
  }
}

/** The parser's message without the picture of the source below it. */
const oneLine = (message: string): string => (message.split('\n')[0] ?? '').replace(/:$/, '');
