import { createHmac } from 'node:crypto';
import type { V1ObjectMeta } from '@kubernetes/client-node';
import { canonicalJson, sha256 } from '../names.ts';

/** Everything of ours on an object is below this prefix. */
export const prefix = 'windlass.dev/';

/** Labels (select and group) and annotations (facts) of our objects. A key is one of the two, except where noted. */
export const keys = {
  schema: `${prefix}schema`,
  installation: `${prefix}installation`,
  /** Label, and verbatim as annotation when the id is no label value; the same for the next seven. */
  instance: `${prefix}instance`,
  owner: `${prefix}owner`,
  cluster: `${prefix}cluster`,
  profile: `${prefix}profile`,
  app: `${prefix}app`,
  task: `${prefix}task`,
  session: `${prefix}session`,
  environment: `${prefix}environment`,
  /** Chooses the NetworkPolicy: none, internet or custom. Pods only. */
  egress: `${prefix}egress`,
  /** 'true' = kept on purpose after its Pod (label or annotation). Claims only. */
  retained: `${prefix}retained`,
  /** A teardown has begun; 'keep' = its claim stays, 'remove' = it goes too. Pods only. */
  removing: `${prefix}removing`,
  nonce: `${prefix}create-nonce`,
  generation: `${prefix}generation`,
  specHash: `${prefix}spec-hash`,
  /** Name or hash of the recipe as accepted. */
  snapshot: `${prefix}snapshot`,
  /** JSON of the lifetime as accepted. */
  lifetime: `${prefix}lifetime`,
  /** When its record was rebuilt from it (RFC 3339). */
  recovered: `${prefix}recovered`,
} as const;

/** Version of the layout of labels and annotations; objects of a newer one are left to newer workers. */
export const schemaVersion = '1';

export interface Identity {
  readonly installation: string;
  readonly instanceId: string;
  /** 20 hex of the instance's name hash. */
  readonly hash: string;
  readonly owner: string;
  readonly cluster: string;
  readonly profile: string;
  readonly app?: string;
  readonly taskId?: string;
  readonly sessionId?: string;
  readonly environmentId?: string;
}

/** What is written on an object besides who it belongs to. */
export interface Marks {
  readonly nonce: string;
  readonly generation: number;
  readonly specHash: string;
  readonly snapshot?: string | undefined;
  readonly lifetime?: string | undefined;
}

const labelValue = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const hashed = 'sha256-';

/** The value itself, or a digest of it when it is no label value (or looks like a digest: two ids must not meet). */
export function labelFor(value: string): string {
  return labelValue.test(value) && !value.startsWith(hashed) ? value : `${hashed}${sha256(value).slice(0, 40)}`;
}

/** The ids of an identity by their key, verbatim; absent ones are left out. */
function idsOf(identity: Identity): (readonly [string, string])[] {
  const all: (readonly [string, string | undefined])[] = [
    [keys.instance, identity.instanceId],
    [keys.owner, identity.owner],
    [keys.cluster, identity.cluster],
    [keys.profile, identity.profile],
    [keys.app, identity.app],
    [keys.task, identity.taskId],
    [keys.session, identity.sessionId],
    [keys.environment, identity.environmentId],
  ];
  return all.filter((pair): pair is readonly [string, string] => pair[1] !== undefined && pair[1] !== '');
}

/** Labels of what an installation shares between instances (ConfigMaps). `component` is agent or profile. */
export function sharedLabels(installation: string, component: string): Record<string, string> {
  return {
    'app.kubernetes.io/name': 'windlass',
    'app.kubernetes.io/component': component,
    'app.kubernetes.io/managed-by': 'windlass',
    [keys.schema]: schemaVersion,
    [keys.installation]: installation,
  };
}

export function ownedLabels(identity: Identity): Record<string, string> {
  const ids = idsOf(identity).map(([key, value]) => [key, labelFor(value)] as const);
  return {
    ...sharedLabels(identity.installation, 'workspace'),
    'app.kubernetes.io/instance': `windlass-${identity.hash}`,
    ...Object.fromEntries(ids),
  };
}

export function ownedAnnotations(identity: Identity & Marks): Record<string, string> {
  const verbatim = idsOf(identity).filter(([, value]) => labelFor(value) !== value);
  return {
    [keys.nonce]: identity.nonce,
    [keys.generation]: String(identity.generation),
    [keys.specHash]: identity.specHash,
    ...(identity.snapshot ? { [keys.snapshot]: identity.snapshot } : {}),
    ...(identity.lifetime ? { [keys.lifetime]: identity.lifetime } : {}),
    ...Object.fromEntries(verbatim),
  };
}

/** Keys that may be missing or differ without making an object another's. */
const loose: readonly string[] = [keys.egress, keys.retained];

/** True when every owned label is there and right and no unknown one of our prefix was added (somebody else uses it). */
export function isOurs(meta: V1ObjectMeta, identity: Identity): boolean {
  const wanted = ownedLabels(identity);
  const labels = meta.labels ?? {};
  if (Object.entries(wanted).some(([key, value]) => labels[key] !== value)) return false;
  return Object.keys(labels).every((key) => !key.startsWith(prefix) || key in wanted || loose.includes(key));
}

/** The ids that an object carries, verbatim; undefined when it is not one of this layout. */
export function identityOn(meta: V1ObjectMeta): Identity | undefined {
  const read = (key: string): string => meta.annotations?.[key] ?? meta.labels?.[key] ?? '';
  const installation = meta.labels?.[keys.installation];
  const hash = /^windlass-([0-9a-f]{20})(-workspace)?$/.exec(meta.name ?? '')?.[1];
  if (!installation || !hash || meta.labels?.[keys.schema] !== schemaVersion || read(keys.instance) === '') return undefined;
  const optional = { app: keys.app, taskId: keys.task, sessionId: keys.session, environmentId: keys.environment };
  const given = Object.entries(optional).filter(([, key]) => read(key) !== '');
  return {
    installation,
    instanceId: read(keys.instance),
    hash,
    owner: read(keys.owner),
    cluster: read(keys.cluster),
    profile: read(keys.profile),
    ...Object.fromEntries(given.map(([field, key]) => [field, read(key)])),
  };
}

/**
 * ours = may be adopted · deleting = ours, on its way out: wait · changed = ours, but of another content than wanted ·
 * foreign = somebody else's, or not to be told: never touched.
 */
export type Adoption = 'ours' | 'deleting' | 'changed' | 'foreign';

/** Name and labels alone never make an object ours: only our nonce, or the UID that we recorded, does. */
export function adoptable(
  meta: V1ObjectMeta,
  expected: { readonly nonce: string; readonly uid?: string | undefined; readonly specHash?: string | undefined },
): Adoption {
  const byNonce = expected.nonce !== '' && meta.annotations?.[keys.nonce] === expected.nonce;
  const byUid = expected.uid !== undefined && expected.uid !== '' && meta.uid === expected.uid;
  if (!byNonce && !byUid) return 'foreign';
  if (meta.deletionTimestamp) return 'deleting';
  if (expected.specHash !== undefined && meta.annotations?.[keys.specHash] !== expected.specHash) return 'changed';
  return 'ours';
}

/** sha256 of the canonical spec as composed: what was asked for, before defaults and webhooks. */
export function specHash(object: { readonly spec?: object }): string {
  return sha256(canonicalJson(object.spec ?? {}));
}

/** 64 hex: the same for every attempt of a generation, derivable again when the record is lost, guessable by nobody. */
export function createNonce(
  key: Uint8Array,
  parts: { readonly installation: string; readonly instanceId: string; readonly generation: number; readonly kind: string },
): string {
  const text = JSON.stringify([parts.installation, parts.instanceId, parts.generation, parts.kind]);
  return createHmac('sha256', key).update(text).digest('hex');
}
