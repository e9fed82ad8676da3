import type { KubeObject } from '../types.ts';
import { badRequest } from './status.ts';

export type Matcher = (object: KubeObject) => boolean;

const all: Matcher = () => true;

/** Splits at commas outside parentheses. */
const requirements = (text: string): string[] => text.split(/,(?![^(]*\))/).map((part) => part.trim());

function setRequirement(text: string): Matcher | undefined {
  const match = /^(\S+)\s+(in|notin)\s+\(([^()]*)\)$/.exec(text);
  if (!match) return undefined;
  const [, key = '', operator, list = ''] = match;
  const values = new Set(list.split(',').map((value) => value.trim()));
  return (object) => {
    const value = object.metadata.labels?.[key];
    return operator === 'in' ? value !== undefined && values.has(value) : value === undefined || !values.has(value);
  };
}

function labelRequirement(text: string): Matcher {
  const set = setRequirement(text);
  if (set) return set;
  const equality = /^([^\s=!]+)\s*(==|=|!=)\s*([^\s=!]*)$/.exec(text);
  if (equality) {
    const [, key = '', operator, value] = equality;
    return (object) => (object.metadata.labels?.[key] === value) === (operator !== '!=');
  }
  const existence = /^(!?)\s*([^\s=!,()]+)$/.exec(text);
  if (existence) {
    const [, not, key = ''] = existence;
    return (object) => (object.metadata.labels?.[key] === undefined) === (not === '!');
  }
  throw badRequest(`unable to parse requirement: ${text}`);
}

/** `a=b,c!=d,e in (f,g),h,!i`; 400 when it cannot be parsed. */
export function labelMatcher(selector: string | null): Matcher {
  if (!selector?.trim()) return all;
  const tests = requirements(selector).map(labelRequirement);
  return (object) => tests.every((test) => test(object));
}

const fieldsOf: Record<string, readonly string[]> = {
  pods: [
    'spec.nodeName',
    'spec.restartPolicy',
    'spec.schedulerName',
    'spec.serviceAccountName',
    'spec.hostNetwork',
    'status.phase',
    'status.podIP',
    'status.nominatedNodeName',
  ],
  events: [
    'involvedObject.kind',
    'involvedObject.namespace',
    'involvedObject.name',
    'involvedObject.uid',
    'involvedObject.apiVersion',
    'involvedObject.resourceVersion',
    'involvedObject.fieldPath',
    'reason',
    'reportingComponent',
    'source',
    'type',
  ],
  namespaces: ['status.phase'],
  nodes: ['spec.unschedulable'],
  secrets: ['type'],
  services: ['spec.clusterIP', 'spec.type'],
};

function fieldValue(object: KubeObject, path: string): string {
  if (path === 'source' && object.kind === 'Event') return object.source?.component || object.reportingComponent || '';
  let value: unknown = object;
  for (const part of path.split('.')) value = (value as Record<string, unknown> | undefined)?.[part];
  if (value === undefined || value === null) return path.endsWith('unschedulable') || path.endsWith('hostNetwork') ? 'false' : '';
  return String(value);
}

/** `metadata.name=x,status.phase!=Failed`; 400 for a field that this resource cannot be selected by. */
export function fieldMatcher(resource: string, selector: string | null): Matcher {
  if (!selector?.trim()) return all;
  const known = ['metadata.name', 'metadata.namespace', ...(fieldsOf[resource] ?? [])];
  const tests = selector.split(',').map((part): Matcher => {
    const match = /^([^=!]+)(==|=|!=)(.*)$/.exec(part.trim());
    if (!match) throw badRequest(`invalid selector: '${selector}'; can't understand '${part}'`);
    const [, path = '', operator, value] = match;
    if (!known.includes(path)) {
      throw badRequest(
        fieldsOf[resource]
          ? `field label not supported: ${path}`
          : `"${path}" is not a known field selector: only "metadata.name", "metadata.namespace"`,
      );
    }
    return (object) => (fieldValue(object, path) === value) === (operator !== '!=');
  });
  return (object) => tests.every((test) => test(object));
}

export function matcherOf(resource: string, query: URLSearchParams): Matcher {
  const labels = labelMatcher(query.get('labelSelector'));
  const fields = fieldMatcher(resource, query.get('fieldSelector'));
  return (object) => labels(object) && fields(object);
}
