import { z } from 'zod';
import { exceeds, quantity } from '../config/formats.ts';
import { idSchema } from './ids.ts';

/** What can be asked (contract §4). The JSON Schemas of these are the contract for services in other languages. */
export const payloadVersion = 1;
/** Whole payload as JSON, in bytes. */
export const maxPayloadBytes = 64 * 1024;

const reserved = (name: string) => name === 'HOME' || name.startsWith('WINDLASS_');
const envName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be letters, digits or "_", not starting with a digit')
  .refine((name) => !reserved(name), 'is reserved: HOME and WINDLASS_* belong to Windlass');
const envValue = z.string().refine((value) => !value.includes('\0'), 'must not contain a NUL character');
const version = z.literal(payloadVersion, { error: `must be ${payloadVersion}` });

const repositoryUrl = z.string().superRefine((text, context) => {
  const scp = /^git@[A-Za-z0-9.-]+:[^\s]+$/.test(text);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const fits = scp || (url !== undefined && ['https:', 'ssh:'].includes(url.protocol));
  if (!fits) context.addIssue({ code: 'custom', message: 'must be an https:// or ssh:// URL' });
  else if (url !== undefined && (url.password !== '' || (url.username !== '' && url.protocol === 'https:'))) {
    context.addIssue({ code: 'custom', message: 'must not hold a user or password: put credentials into secretEnv' });
  }
});
const gitRef = z
  .string()
  .regex(/^(?!-)[A-Za-z0-9._/@+-]{1,200}$/, 'must be a branch, tag or commit')
  .refine((ref) => !ref.includes('..'), 'must not contain ".."');

const lifetime = z.strictObject({
  maxSeconds: z.int().min(1).optional(),
  idleSeconds: z.int().min(0).optional(),
  onIdle: z.enum(['suspend', 'teardown']).optional(),
  onExpire: z.enum(['suspend', 'teardown']).optional(),
});

/**
 * The fields of a launch by themselves, which is how a stored one is read: a rule between fields that is newer than it must
 * not leave a record that its job can neither start nor roll back.
 */
export const launchObject = z.strictObject({
  version,
  instanceId: idSchema.optional(),
  owner: idSchema.optional(),
  cluster: z.string().optional(),
  profile: z.string().optional(),
  app: z.string().optional(),
  taskId: idSchema.optional(),
  sessionId: idSchema.optional(),
  environmentId: idSchema.optional(),
  env: z.record(envName, envValue).optional(),
  secretEnv: z.record(envName, envValue).optional(),
  sealedEnv: z.string().optional(),
  secretRefs: z.record(envName, z.strictObject({ secret: z.string(), key: z.string() })).optional(),
  prepare: z.string().optional(),
  repository: z.strictObject({ url: repositoryUrl, ref: gitRef.optional() }).optional(),
  command: z.array(z.string()).min(1).optional(),
  priority: z.enum(['low', 'normal', 'high']).optional(),
  deadlineSeconds: z.int().min(1).max(86400).optional(),
  failFast: z.boolean().optional(),
  lifetime: lifetime.optional(),
  resources: z
    .strictObject({ requests: z.record(z.string(), quantity).optional(), limits: z.record(z.string(), quantity).optional() })
    .optional(),
  labels: z.record(z.string(), z.string()).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
  metadata: z.record(z.string(), z.json()).optional(),
});

export const launchSchema = launchObject.superRefine((payload, context) => {
  if ((payload.profile === undefined) === (payload.app === undefined)) {
    context.addIssue({ code: 'custom', path: ['profile'], message: 'give either profile or app' });
  }
  for (const name of Object.keys(payload.secretEnv ?? {})) {
    if (payload.env?.[name] !== undefined)
      context.addIssue({ code: 'custom', path: ['secretEnv', name], message: 'is also given in env' });
  }
  const { requests = {}, limits = {} } = payload.resources ?? {};
  for (const [name, least] of Object.entries(requests)) {
    const limit = limits[name];
    if (exceeds(least, limit))
      context.addIssue({ code: 'custom', path: ['resources', 'requests', name], message: `must be at most the limit, ${limit}` });
  }
});

export const teardownSchema = z.strictObject({
  version,
  instanceId: idSchema,
  keepWorkspace: z.boolean().optional(),
  force: z.boolean().optional(),
  reason: z.string().max(500).optional(),
  cleanup: z.string().optional(),
});

export const extendSchema = z.strictObject({
  version,
  instanceId: idSchema,
  bySeconds: z.int().min(1).max(31_536_000),
});

/** The kinds of sweep that this version has. */
export const builtSweeps = ['orphans', 'ghosts', 'expired', 'config-maps', 'stuck'] as const;

export const sweepSchema = z.strictObject({
  version,
  kinds: z.array(z.enum([...builtSweeps, 'all'], { error: `must be one of: ${[...builtSweeps, 'all'].join(', ')}` })).min(1),
  dryRun: z.boolean().optional(),
  ackMassDelete: z.boolean().optional(),
});

export type LaunchPayload = z.output<typeof launchSchema>;
export type TeardownPayload = z.output<typeof teardownSchema>;
export type SweepPayload = z.output<typeof sweepSchema>;

/** What a queue entry of ours carries: the request itself lives in the inventory. */
export const jobReference = z.object({
  version,
  instanceId: idSchema,
  generation: z.int().min(1),
  run: z.int().min(0),
});
export type JobReference = z.output<typeof jobReference>;

/** How often a retryable failure is tried before it becomes a dead letter; kept in the record, not in the queue. */
export const launchAttempts = 3;

/** Not before it was asked for, and within as long again: who was told the same together does not come back together. */
export const spreadMs = (ms: number, random: () => number = Math.random): number => Math.round(ms * (1 + random()));

/** Exponential back-off with full jitter over its upper half, in ms: a crowd that failed together does not return together. */
export function backoffMs(attempt: number, random: () => number = Math.random): number {
  const ceiling = Math.min(60_000, 1000 * 2 ** Math.max(0, attempt - 1));
  return Math.round(ceiling / 2 + (ceiling / 2) * random());
}
