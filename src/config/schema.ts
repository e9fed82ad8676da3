import { z } from 'zod';
import { dnsLabel, dnsSubdomain, quantity, relativePath } from './formats.ts';

/**
 * The configuration file (contract §3). Every object is strict: an unknown key is an error, since a misspelt limit
 * that is silently ignored is worse than a refused start.
 */
const seconds = (max: number) => z.int().min(0).max(max);
const name = dnsLabel;
const owners = z.array(z.string().min(1)).default(['*']);

export const redisSchema = z.strictObject({
  url: z.string().default('redis://127.0.0.1:6379'),
  prefix: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,40}$/, 'must be 1 to 40 letters, digits, ".", "_" or "-"')
    .default('windlass'),
  username: z.string().optional(),
  passwordEnv: z.string().optional(),
  tls: z
    .strictObject({ caFile: z.string().optional(), certFile: z.string().optional(), keyFile: z.string().optional() })
    .optional(),
  sentinelPasswordEnv: z.string().optional(),
  waitReplicas: z.int().min(0).max(10).default(0),
});

const clusterCommon = {
  namespace: dnsLabel,
  requestTimeoutSeconds: z.int().min(1).max(300).default(30),
  owners,
  acceptLaunches: z.boolean().default(true),
};
export const clusterSchema = z.discriminatedUnion('authMode', [
  z.strictObject({
    authMode: z.literal('kubeconfig'),
    kubeconfigPath: z.string().min(1),
    context: z.string().default(''),
    ...clusterCommon,
  }),
  z.strictObject({ authMode: z.literal('in_cluster'), ...clusterCommon }),
]);

export const workspaceSchema = z.discriminatedUnion('mode', [
  z.strictObject({
    mode: z.literal('managed_pvc'),
    size: quantity,
    storageClass: z.union([z.literal(''), dnsSubdomain]).default(''),
    accessModes: z
      .array(
        z.enum(
          ['ReadWriteOnce', 'ReadWriteMany', 'ReadWriteOncePod'],
          'must be ReadWriteOnce, ReadWriteMany or ReadWriteOncePod: a workspace is writable',
        ),
      )
      .min(1)
      .default(['ReadWriteOnce']),
  }),
  z.strictObject({ mode: z.literal('empty_dir'), sizeLimit: quantity.optional() }),
  z.strictObject({ mode: z.literal('existing_claim'), claimName: dnsSubdomain }),
]);

export const agentSchema = z.strictObject({
  delivery: z.enum(['config_map', 'init_image', 'upload', 'image', 'none']).default('config_map'),
  protocol: z.enum(['windlass', 'agentctl']).default('windlass'),
  binaries: z.record(z.string(), relativePath).optional(),
  path: z.string().optional(),
  image: z.string().optional(),
});

export const budgetsSchema = z.strictObject({
  storage: seconds(86400).default(600),
  schedule: seconds(86400).default(300),
  pull: seconds(86400).default(600),
  start: seconds(86400).default(120),
  bootstrap: seconds(86400).default(300),
  connect: seconds(86400).default(120),
  total: seconds(86400).default(1800),
});

export const lifetimeSchema = z.strictObject({
  maxSeconds: seconds(31_536_000).default(86400),
  idleSeconds: seconds(31_536_000).default(0),
  onIdle: z.enum(['suspend', 'teardown']).default('suspend'),
  onExpire: z.enum(['suspend', 'teardown']).default('teardown'),
});

export const unsafeNames = [
  'hostPath',
  'privileged',
  'hostNetwork',
  'hostPID',
  'hostIPC',
  'hostPort',
  'automountServiceAccountToken',
  'capabilities',
] as const;

export const profileSchema = z.strictObject({
  owners,
  platform: z.enum(['linux/amd64', 'linux/arm64']).default('linux/amd64'),
  mainContainer: dnsLabel.default('agent'),
  podTemplateFile: relativePath.optional(),
  podTemplate: z.string().optional(),
  workspace: workspaceSchema,
  agent: agentSchema.prefault({}),
  handshake: z.enum(['auto', 'port_forward', 'exec', 'pod_ip']).default('auto'),
  egress: z.enum(['none', 'internet', 'custom']).default('internet'),
  allowUnsafe: z.array(z.enum(unsafeNames)).default([]),
  secretRefs: z.array(z.strictObject({ secret: dnsSubdomain, keys: z.array(z.string()).min(1), owners })).default([]),
  budgets: budgetsSchema.prefault({}),
  lifetime: lifetimeSchema.prefault({}),
});

export const appSchema = z.strictObject({
  image: z.string().min(1),
  title: z.string().optional(),
  description: z.string().optional(),
  owners,
  env: z.record(z.string(), z.string()).default({}),
  allowEnv: z.array(z.string()).default([]),
  allow: z.array(z.enum(['command', 'prepare', 'repository', 'secretEnv'])).default([]),
  pullPolicy: z.enum(['missing', 'always', 'never']).default('missing'),
});

export const limitsSchema = z.strictObject({
  maxInstances: z.int().min(1).default(1000),
  perOwner: z.int().min(1).default(20),
  launching: z.int().min(1).default(200),
  claimsPerOwner: z.int().min(1).default(50),
  claimSize: quantity.default('100Gi'),
  maxLifetimeSeconds: z.int().min(1).default(604800),
  suspendedSeconds: z.int().min(1).default(2592000),
  resources: z.record(z.string(), quantity).default({ cpu: '4', memory: '8Gi', 'ephemeral-storage': '10Gi' }),
});

/** Seconds between sweeps of a kind whose configuration names neither `every` nor `cron`. */
const defaultEverySeconds = 60;

const sweepSchema = z
  .strictObject({
    every: z.int().min(1).optional().describe(`Seconds between passes; ${defaultEverySeconds} where no cron is given either.`),
    cron: z.string().optional(),
    tz: z.string().default('UTC'),
    graceSeconds: seconds(86400).default(600),
    maxDeletes: z.int().min(0).default(20),
    dryRun: z.boolean().default(false),
  })
  .refine(
    (sweep) => !(sweep.every !== undefined && sweep.cron !== undefined),
    'give either every or cron, not both: two schedules would run twice',
  )
  .transform((sweep) => (sweep.cron === undefined ? { ...sweep, every: sweep.every ?? defaultEverySeconds } : sweep));
export const sweepKinds = ['orphans', 'ghosts', 'expired', 'config-maps', 'stuck'] as const;

export const tokenSchema = z.strictObject({
  name: z.string().min(1),
  sha256: z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 lower-case hex digits (sha256 of the token)'),
  role: z.enum(['viewer', 'caller', 'operator']),
  owners,
  expiresAt: z.iso.datetime().optional(),
});

const keyId = z.string().regex(/^[A-Za-z0-9._-]{1,32}$/, 'must be 1 to 32 letters, digits, ".", "_" or "-"');
const jwkSchema = z.strictObject({
  kty: z.enum(['EC', 'OKP']),
  crv: z.enum(['P-256', 'X25519']),
  x: z.string(),
  y: z.string().optional(),
});

export const configSchema = z.strictObject({
  installation: dnsLabel.default('local'),
  redis: redisSchema.prefault({}),
  clusters: z
    .record(name, clusterSchema)
    .refine((value) => Object.keys(value).length > 0, 'name at least one cluster: launches need somewhere to go'),
  profiles: z.record(name, profileSchema).default({}),
  apps: z.record(name, appSchema).default({}),
  images: z.strictObject({ allow: z.array(z.string()).default([]), requireDigest: z.boolean().default(false) }).prefault({}),
  metadataPolicy: z.strictObject({ allow: z.array(z.string()).default(['user.windlass.dev/*']) }).prefault({}),
  limits: limitsSchema.prefault({}),
  backpressure: z.strictObject({ enabled: z.boolean().default(true) }).prefault({}),
  sweeps: z
    .strictObject({
      orphans: sweepSchema.prefault({}),
      ghosts: sweepSchema.prefault({}),
      expired: sweepSchema.prefault({}),
      'config-maps': sweepSchema.prefault({}),
      stuck: sweepSchema.prefault({}),
      breaker: z
        .strictObject({ minCandidates: z.int().min(0).default(10), maxFraction: z.number().min(0).max(1).default(0.2) })
        .prefault({}),
    })
    .prefault({}),
  recovery: z
    .strictObject({
      onLost: z.enum(['report', 'rebuild']).default('report'),
      maxRebuilds: z.int().min(0).default(1),
      forceDeleteOnNodeLoss: z.boolean().default(false),
    })
    .prefault({}),
  retention: z
    .strictObject({
      failedSeconds: z.int().min(1).default(86400),
      tombstoneSeconds: z.int().min(1).default(604800),
      finishedSeconds: z.int().min(1).default(14400),
      eventsPerInstance: z.int().min(10).default(500),
    })
    .prefault({}),
  worker: z
    .strictObject({ concurrency: z.int().min(1).max(1000).default(50), drainSeconds: z.int().min(1).max(600).default(25) })
    .prefault({}),
  http: z
    .strictObject({
      host: z.string().default('127.0.0.1'),
      port: z.int().min(0).max(65535).default(8080),
      publicUrl: z.url().optional(),
      basePath: z.string().regex(/^\//, 'must start with /').default('/'),
      trustProxy: z.boolean().default(false),
      allowedHosts: z.array(z.string()).default([]),
      tokensFile: z.string().optional(),
      tokens: z.array(tokenSchema).default([]),
      limits: z
        .strictObject({
          requestsPerMinute: z.int().min(1).default(600),
          launchesPerMinute: z.int().min(1).default(120),
          streams: z.int().min(1).default(50),
          execs: z.int().min(1).default(20),
          bodyBytes: z.int().min(1024).default(131072),
        })
        .prefault({}),
    })
    .prefault({}),
  secrets: z.strictObject({
    sealing: z
      .array(z.strictObject({ id: keyId, publicKey: jwkSchema, privateKeyEnv: z.string() }))
      .min(1, 'name at least one sealing key: `windlass keys new` makes one'),
    atRest: z
      .array(z.strictObject({ id: keyId, keyEnv: z.string() }))
      .min(1, 'name at least one key: `windlass keys new` makes one'),
  }),
  log: z
    .strictObject({ level: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info') })
    .prefault({}),
  telemetry: z.strictObject({ otlpEndpoint: z.string().default('') }).prefault({}),
});

export type Config = z.output<typeof configSchema>;
export type ClusterConfig = z.output<typeof clusterSchema>;
export type ProfileConfig = z.output<typeof profileSchema>;
export type AppConfig = z.output<typeof appSchema>;
export type WorkspaceConfig = z.output<typeof workspaceSchema>;
export type SweepKind = (typeof sweepKinds)[number];
