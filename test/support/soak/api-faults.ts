import { rename, writeFile } from 'node:fs/promises';
import type { AuditEntry } from '../../../src/local-cluster/audit.ts';

/** What may go wrong with one kind of request; a request of that kind meets one of them with the asked rate. */
interface Kind {
  readonly verb: string;
  readonly resources: readonly string[];
  readonly subresource?: string;
  readonly faults: readonly unknown[];
}

const objects = ['pods', 'persistentvolumeclaims'];
const refused = (code: number, reason: string, more: object = {}) => ({ error: { code, reason, ...more } });
const busy = refused(429, 'TooManyRequests', { retryAfter: 1 });
const broken = refused(500, 'InternalError');
const away = refused(503, 'ServiceUnavailable');

const kinds: readonly Kind[] = [
  { verb: 'get', resources: [...objects, 'configmaps'], faults: [busy, away, 'drop_before', { delayMs: 1500 }] },
  { verb: 'list', resources: objects, faults: [busy, away, 'drop_before'] },
  { verb: 'watch', resources: [...objects, 'events'], faults: ['watch_close', 'watch_gone', 'drop_before'] },
  {
    verb: 'create',
    resources: [...objects, 'configmaps'],
    faults: [
      busy,
      broken,
      'drop_before',
      'commit_then_drop',
      'commit_then_drop',
      { delayThenCommitMs: 4000 },
      { webhookDown: true },
    ],
  },
  { verb: 'delete', resources: objects, faults: [broken, 'drop_before', 'commit_then_drop', { delayThenCommitMs: 2000 }] },
  { verb: 'patch', resources: objects, faults: [broken, 'commit_then_drop', refused(409, 'Conflict')] },
  { verb: 'create', resources: ['pods'], subresource: 'exec', faults: [broken, { exec_drop_after: 1 }, 'exec_no_status'] },
  { verb: 'create', resources: ['pods'], subresource: 'portforward', faults: [broken, 'forward_refuse', 'forward_reset'] },
];

/** The rules under which each request meets a fault with probability `rate`. */
export function faultRules(rate: number, seed: number): object[] {
  const rules = kinds.flatMap(({ verb, resources, subresource, faults }) =>
    resources.flatMap((resource) =>
      faults.map((fault) => ({ verb, resource, ...(subresource ? { subresource } : {}), rate: rate / faults.length, fault })),
    ),
  );
  return rules.map((rule, at) => ({ ...rule, seed: seed * 1000 + at }));
}

/** By rename: the cluster reads the file before each request, and must never see half of it. */
export async function writeFaults(file: string, rules: readonly object[]): Promise<void> {
  await writeFile(`${file}.new`, JSON.stringify({ rules }));
  await rename(`${file}.new`, file);
}

export interface Met {
  requests: number;
  faults: number;
}

const callOf = (verb: string, resource: string, subresource = '') =>
  subresource ? `${subresource} ${resource}` : `${verb} ${resource}`;

/** How many requests of each kind that has faults there were, and how many of them met one, by the API server's own log. */
export function faultsMet(entries: readonly AuditEntry[]): Readonly<Record<string, Met>> {
  const met = Object.fromEntries(
    kinds.flatMap(({ verb, resources, subresource }) =>
      resources.map((resource): [string, Met] => [callOf(verb, resource, subresource), { requests: 0, faults: 0 }]),
    ),
  );
  for (const { verb, resource, subresource, faults } of entries) {
    const of = met[callOf(verb, resource, subresource)];
    if (of === undefined) continue;
    of.requests += 1;
    if (faults !== undefined) of.faults += 1;
  }
  return met;
}

/** Kinds that met no fault although ten were to be expected (by chance one time in 20,000): the soak did not try them. */
export function spared(met: Readonly<Record<string, Met>>, rate: number): string[] {
  const never = Object.entries(met).filter(([, { requests, faults }]) => faults === 0 && requests * rate >= 10);
  return never.map(([call, { requests }]) => `no fault ever met ${call}, in ${requests} requests`);
}
