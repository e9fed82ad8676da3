import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Writable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { stringify } from 'yaml';
import { type LoadedConfig, loadConfig } from '../../src/config/load.ts';
import { newKeys } from '../../src/inventory/secrets.ts';
import type { InstanceRecord } from '../../src/inventory/types.ts';
import type { Cluster } from '../../src/kubernetes/port.ts';
import { type Operator, openOperator, startWorker, type WorkerHandle } from '../../src/main.ts';
import { endWithUs } from './children.ts';
import { startRedis, type TestRedis } from './redis.ts';

const root = resolve(import.meta.dirname, '../..');

export interface World {
  readonly redis: TestRedis;
  readonly loaded: LoadedConfig;
  readonly operator: Operator;
  readonly cluster: Cluster;
  /** Starts a worker in this process. */
  worker(): Promise<WorkerHandle>;
  /** Starts a worker as a process of its own, which can be killed; resolves once it takes jobs. */
  workerProcess(env?: Record<string, string>): Promise<ChildProcess>;
  /** Resolves with the record once `test` holds; undefined = the record is gone. Throws after `seconds`. */
  until(
    instanceId: string,
    test: (record: InstanceRecord | undefined) => boolean,
    seconds?: number,
  ): Promise<InstanceRecord | undefined>;
  ready(instanceId: string, seconds?: number): Promise<InstanceRecord>;
  gone(instanceId: string, seconds?: number): Promise<void>;
  exec(instanceId: string, command: readonly string[]): Promise<{ exitCode: number; stdout: string; stderr: string }>;
  /** Everything of ours in the namespace but the shared ConfigMaps. */
  leftovers(): Promise<string[]>;
  stop(): Promise<void>;
}

export interface WorldOptions {
  readonly kubeconfig: string;
  readonly namespace: string;
  readonly image: string;
  readonly storageClass?: string;
  /** A Redis that the caller stops; one of the world's own when undefined. */
  readonly redis?: TestRedis;
  /** Merged over the written configuration, top-level keys. */
  readonly config?: Record<string, unknown>;
  /** Gets all that worker processes log. */
  readonly onLog?: (text: string) => void;
}

const template = (image: string) => ({
  apiVersion: 'v1',
  kind: 'PodTemplate',
  template: {
    spec: {
      terminationGracePeriodSeconds: 5,
      securityContext: {
        runAsNonRoot: true,
        runAsUser: 1000,
        runAsGroup: 1000,
        fsGroup: 1000,
        seccompProfile: { type: 'RuntimeDefault' },
      },
      containers: [
        {
          name: 'agent',
          image,
          imagePullPolicy: 'IfNotPresent',
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
          resources: { requests: { cpu: '10m', memory: '32Mi' } },
        },
      ],
    },
  },
});

/** A Redis of its own, a configuration in a folder of its own, and the cluster that was given. */
export async function createWorld(options: WorldOptions): Promise<World> {
  const redis = options.redis ?? (await startRedis());
  const dir = await mkdtemp(join(tmpdir(), 'windlass-world-'));
  const loaded = await writeConfig(dir, redis.url, options);
  const operator = await openOperator(loaded);
  const workers: WorkerHandle[] = [];
  const children: ChildProcess[] = [];
  const world: World = {
    redis,
    loaded,
    operator,
    cluster: operator.clusters.get('default'),
    async worker() {
      const worker = await startWorker(loaded, { queues: ['launch', 'teardown', 'sweep'] });
      workers.push(worker);
      return worker;
    },
    async workerProcess(env = {}) {
      const child = await spawnWorker(loaded, env, options.onLog);
      children.push(child);
      return child;
    },
    until: (id, test, seconds = 60) => until(operator, id, test, seconds),
    async ready(id, seconds = 60) {
      const settled = (record: InstanceRecord | undefined) =>
        record?.state === 'ready' || (record?.state === 'failed' && record.failure !== null);
      const record = await until(operator, id, settled, seconds);
      if (record?.state !== 'ready') throw new Error(`${id} failed: ${JSON.stringify(record?.failure)}`);
      return record;
    },
    async gone(id, seconds = 60) {
      await until(operator, id, (record) => record === undefined, seconds);
    },
    exec: (id, command) => exec(operator, id, command),
    leftovers: () => leftovers(world.cluster, loaded.config.installation),
    async stop() {
      for (const child of children) await endProcess(child);
      for (const worker of workers) await worker.close();
      await operator.close();
      if (options.redis === undefined) await redis.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
  return world;
}

async function writeConfig(dir: string, redisUrl: string, options: WorldOptions): Promise<LoadedConfig> {
  const keys = await newKeys();
  const workspace = {
    mode: 'managed_pvc',
    size: '64Mi',
    ...(options.storageClass ? { storageClass: options.storageClass } : {}),
  };
  const config = {
    installation: 'test',
    redis: { url: redisUrl },
    clusters: { default: { authMode: 'kubeconfig', kubeconfigPath: options.kubeconfig, namespace: options.namespace } },
    profiles: {
      node: { podTemplateFile: 'profiles/node.yaml', workspace },
      scratch: { podTemplateFile: 'profiles/node.yaml', workspace: { mode: 'empty_dir' } },
    },
    secrets: {
      sealing: [{ id: 's1', publicKey: keys.sealing.publicJwk, privateKeyEnv: 'WINDLASS_SEALING_KEY' }],
      atRest: [{ id: 'k1', keyEnv: 'WINDLASS_SECRET_KEY' }],
    },
    log: { level: process.env.WINDLASS_TEST_LOG ?? 'fatal' },
    ...options.config,
  };
  await mkdir(join(dir, 'profiles'));
  await writeFile(join(dir, 'profiles/node.yaml'), stringify(template(options.image)));
  await writeFile(join(dir, 'windlass.yaml'), stringify(config));
  const env = `WINDLASS_SEALING_KEY=${JSON.stringify(keys.sealing.privateJwk)}\nWINDLASS_SECRET_KEY=${keys.atRest}\n`;
  await writeFile(join(dir, 'windlass.env'), env, { mode: 0o600 });
  return loadConfig({ file: join(dir, 'windlass.yaml') });
}

/** As it is shipped, built anew when the sources have changed since. */
async function spawnWorker(
  loaded: LoadedConfig,
  env: Record<string, string>,
  onLog: (text: string) => void = () => undefined,
): Promise<ChildProcess> {
  await built();
  const args = [join(root, 'dist/cli/main.js'), 'worker', '--config', loaded.file, '--port', '0'];
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { ...process.env, WINDLASS__LOG__LEVEL: 'info', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  endWithUs(child);
  let log = '';
  await new Promise<void>((resolveStarted, reject) => {
    const timer = setTimeout(() => {
      // Whoever tries again must not get two.
      child.kill('SIGKILL');
      reject(new Error(`the worker did not start:\n${log}`));
    }, 60_000);
    const ended = (code: number | null) => reject(new Error(`the worker ended with ${code}:\n${log}`));
    child.once('exit', ended);
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-20_000);
      onLog(text);
      if (process.env.WINDLASS_TEST_LOG === 'info') process.stderr.write(text);
      if (!log.includes('worker started')) return;
      clearTimeout(timer);
      child.off('exit', ended);
      resolveStarted();
    });
  });
  return child;
}

let building: Promise<void> | undefined;
/** dist/ is made of the present sources. */
export function built(): Promise<void> {
  building ??= import(pathToFileURL(join(root, 'scripts/build.mjs')).href).then((module: { build(): Promise<void> }) =>
    module.build(),
  );
  return building;
}

async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

async function until(operator: Operator, id: string, test: (record: InstanceRecord | undefined) => boolean, seconds: number) {
  const end = Date.now() + seconds * 1000;
  let seq = 0;
  for (;;) {
    const record = await operator.inventory.read(id);
    if (test(record)) return record;
    if (Date.now() > end) {
      const events = await operator.inventory.events(id, 0, 500);
      throw new Error(
        `${id} did not get there in ${seconds} s: ${JSON.stringify(record)}\n${events.map((event) => JSON.stringify(event)).join('\n')}`,
      );
    }
    const seen = await operator.inventory.events(id, seq, 500);
    seq = seen.at(-1)?.seq ?? seq;
    await operator.inventory.waitForEvent(id, seq, 500);
  }
}

async function exec(operator: Operator, id: string, command: readonly string[]) {
  const access = await operator.connectAgent(id);
  const out: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] };
  const sink = (name: 'stdout' | 'stderr') =>
    new Writable({
      write(chunk, _encoding, done) {
        out[name].push(chunk as Buffer);
        done();
      },
    });
  try {
    const exit = await access.client.exec({ command, stdin: false }, { stdout: sink('stdout'), stderr: sink('stderr') });
    return {
      exitCode: exit.exitCode,
      stdout: Buffer.concat(out.stdout).toString(),
      stderr: Buffer.concat(out.stderr).toString(),
    };
  } finally {
    await access.close();
  }
}

async function leftovers(cluster: Cluster, installation: string): Promise<string[]> {
  const found: string[] = [];
  for (const kind of ['pods', 'persistentvolumeclaims'] as const) {
    for await (const page of cluster.listMetadata(kind, `windlass.dev/installation=${installation}`)) {
      found.push(...page.items.map((meta) => `${kind}/${meta.name}`));
    }
  }
  return found;
}
