import type { Operation } from 'fast-json-patch';
import type { Fault } from '../faults.ts';
import { ApiError } from './status.ts';

/** The faults that one request meets, sorted by when they act. */
export interface FaultPlan {
  readonly dropBefore: boolean;
  readonly commitThenDrop: boolean;
  /** Waited for before the work; a client that leaves meanwhile takes its request along. */
  readonly delayMs: number;
  /** As delayMs, but the work is done even when the client has left. */
  readonly delayThenCommitMs: number;
  readonly refusal: { readonly error: ApiError; readonly retryAfter?: number | undefined } | undefined;
  readonly mutations: readonly Operation[];
  /** What the node reads from a new Pod or claim, to attach its volumes late. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly hideFromListMs: number;
  readonly execDropAfter: number | undefined;
  readonly flags: ReadonlySet<string>;
  /** What all of them are called, for the audit log. */
  readonly names: readonly string[];
}

const webhook = 'faults.windlass.dev';
const writes = new Set(['create', 'update', 'patch', 'delete']);

function refusalOf(fault: Exclude<Fault, string>, writing: boolean): FaultPlan['refusal'] {
  if ('error' in fault) {
    const { code, reason, message, retryAfter } = fault.error;
    const details = retryAfter === undefined ? undefined : { retryAfterSeconds: retryAfter };
    return { error: new ApiError(code, reason, message, details), retryAfter };
  }
  if (!writing) return undefined;
  if ('deny' in fault) {
    return { error: new ApiError(403, 'Forbidden', `admission webhook "${webhook}" denied the request: ${fault.deny}`) };
  }
  if ('webhookDown' in fault) {
    const why = `failed calling webhook "${webhook}": failed to call webhook: Post "https://webhook.faults.svc:443/?timeout=10s": dial tcp 10.96.0.99:443: connect: connection refused`;
    return { error: new ApiError(500, 'InternalError', `Internal error occurred: ${why}`, { causes: [{ message: why }] }) };
  }
  return undefined;
}

export function planFaults(faults: readonly Fault[], verb: string): FaultPlan {
  const objects = faults.filter((fault): fault is Exclude<Fault, string> => typeof fault === 'object');
  const flags = new Set(faults.filter((fault) => typeof fault === 'string'));
  const sum = (key: 'delayMs' | 'delayThenCommitMs' | 'hide_from_list_ms'): number =>
    objects.reduce((total, fault) => total + ((fault as Record<string, number>)[key] ?? 0), 0);
  const mutations = objects.flatMap((fault) => ('mutate' in fault ? (fault.mutate as unknown as Operation[]) : []));
  const attach = objects.find((fault) => 'attachMs' in fault) as { attachMs: number } | undefined;
  const drop = objects.find((fault) => 'exec_drop_after' in fault) as { exec_drop_after: number } | undefined;
  return {
    dropBefore: flags.has('drop_before'),
    commitThenDrop: flags.has('commit_then_drop'),
    delayMs: sum('delayMs'),
    delayThenCommitMs: sum('delayThenCommitMs'),
    refusal: objects.map((fault) => refusalOf(fault, writes.has(verb))).find(Boolean),
    mutations,
    annotations: attach ? { 'fault.local/attach-ms': String(attach.attachMs) } : {},
    hideFromListMs: sum('hide_from_list_ms'),
    execDropAfter: drop?.exec_drop_after,
    flags,
    names: faults.map((fault) => (typeof fault === 'string' ? fault : Object.keys(fault).join())),
  };
}
