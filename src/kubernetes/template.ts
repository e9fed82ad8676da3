import type { V1PodTemplate } from '@kubernetes/client-node';
import { isAlias, parseAllDocuments, visit } from 'yaml';
import type { ProfileConfig } from '../config/schema.ts';
import type { Issue } from '../errors.ts';
import { findReserved } from './template-reserved.ts';
import { checkShape } from './template-shape.ts';
import { findUnsafe, unsafeWarnings } from './template-unsafe.ts';

const maxBytes = 256 * 1024;
/** Anchors save a few lines; a document that multiplies itself is an attack. */
const maxAliases = 100;

export interface ParsedTemplate {
  /** Only when there is no issue. */
  readonly template?: V1PodTemplate;
  readonly issues: readonly Issue[];
  readonly warnings: readonly Issue[];
}

/** What of a profile the check depends on. */
export type TemplateProfile = Partial<Pick<ProfileConfig, 'mainContainer' | 'allowUnsafe' | 'agent'>>;

/**
 * One strict core/v1 PodTemplate document. All issues at once, each below `path` (`profiles.node.podTemplate`); pure.
 * Reserved and unsafe fields are looked for even when the shape has faults, so that one run shows everything.
 */
export function parseTemplate(text: string, path: string, profile: TemplateProfile = {}): ParsedTemplate {
  const issues: Issue[] = [];
  const value = readDocument(text, path, issues);
  if (issues.length > 0) return { issues, warnings: [] };
  const template = checkShape(value, 'PodTemplate', path, issues) as V1PodTemplate | undefined;
  if (!template) return { issues, warnings: [] };
  if (template.apiVersion !== 'v1') issues.push({ path: `${path}.apiVersion`, message: 'must be v1' });
  if (template.kind !== 'PodTemplate') issues.push({ path: `${path}.kind`, message: 'must be PodTemplate' });
  const known = withoutHoles(template) as V1PodTemplate;
  const mainContainer = profile.mainContainer ?? 'agent';
  issues.push(...findReserved(known, { mainContainer, ownsEntry: profile.agent?.delivery !== 'none' }, path));
  issues.push(...findUnsafe(known, profile, path));
  const warnings = unsafeWarnings(known, profile, path);
  return issues.length > 0 ? { issues, warnings } : { template: known, issues, warnings };
}

function readDocument(text: string, path: string, issues: Issue[]): unknown {
  const complain = (message: string): undefined => {
    issues.push({ path, message });
    return undefined;
  };
  if (Buffer.byteLength(text) > maxBytes) return complain('is larger than 256 KiB');
  const documents = parseAllDocuments(text, { uniqueKeys: true, strict: true });
  const [document, ...more] = Array.isArray(documents) ? documents : [];
  if (!document || document.contents === null) return complain('is empty: it must hold one PodTemplate document');
  if (more.length > 0) return complain('must hold exactly one document');
  for (const error of document.errors) complain(`is no YAML: ${error.message.split('\n')[0]}`);
  if (issues.length > 0) return undefined;
  let aliases = 0;
  visit(document, (_key, node) => {
    if (isAlias(node)) aliases += 1;
  });
  if (aliases > maxAliases) return complain(`uses ${aliases} aliases, more than ${maxAliases}`);
  try {
    return document.toJS({ maxAliasCount: maxAliases });
  } catch (error) {
    return complain(`cannot be read: ${(error as Error).message}`);
  }
}

/** Faulty list entries became undefined; what is left can still be looked through without a check at every step. */
function withoutHoles(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((inner) => withoutHoles(inner) ?? {});
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, inner]) => inner !== undefined);
  return Object.fromEntries(entries.map(([key, inner]) => [key, withoutHoles(inner)]));
}
