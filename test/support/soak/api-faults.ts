import { rename, writeFile } from 'node:fs/promises';

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
