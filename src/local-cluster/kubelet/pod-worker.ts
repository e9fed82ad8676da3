import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Store } from '../types.ts';
import { Container } from './container.ts';
import { actOut, type FaultStage } from './fault-acts.ts';
import type { Recorder } from './events.ts';
import type { Isolation, PodIsolation } from './isolation.ts';
import type { PodContext, Role } from './pod-context.ts';
import { type Condition, kubeTime, nodeName, type Pod } from './pod-types.ts';
import { buildStatus } from './status.ts';
import { pause } from './timing.ts';
import { MountError } from './volume-payload.ts';
import { memoryFolders, removeVolumes, setUpVolume, type Volume, type VolumeOptions } from './volumes.ts';

export interface WorkerOptions {
  readonly store: Store;
  readonly isolation: Isolation;
  readonly images: Readonly<Record<string, string>>;
  readonly record: Recorder;
  readonly folder: string;
  readonly pod: Pod;
  readonly log: (message: string) => void;
  /** Its processes and files are gone. */
  readonly done: () => void;
}

/** One Pod on the node, from its binding to its last file. */
export class PodWorker {
  readonly containers: readonly Container[];
  /** A lost node does nothing more: no status, no end of a deletion, no exec. */
  lost = false;
  /** A deletion that never ends. */
  stuck = false;
  readonly #options: WorkerOptions;
  readonly #stopping = new AbortController();
  readonly #startTime = kubeTime();
  readonly #context: PodContext;
  readonly #volumes = new Map<string, Volume>();
  readonly #configWaiters = new Set<() => void>();
  #pod: Pod;
  #sandbox: PodIsolation | undefined;
  #podIP: string | undefined;
  #deadline = Number.POSITIVE_INFINITY;
  #verdict: { reason: string; message: string } | undefined;
  #extra: Omit<Condition, 'lastTransitionTime' | 'lastProbeTime'>[] = [];
  #publishing: NodeJS.Immediate | undefined;
  #ending: Promise<void> | undefined;
  #work: Promise<void> = Promise.resolve();
  #removed = false;
  #over = false;

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#pod = options.pod;
    this.#context = this.#makeContext();
    const init = options.pod.spec.initContainers ?? [];
    const waiting = init.length > 0 ? 'PodInitializing' : 'ContainerCreating';
    const roleOf = (policy: string | undefined): Role => (policy === 'Always' ? 'sidecar' : 'init');
    this.containers = [
      ...init.map((spec) => new Container(this.#context, spec, roleOf(spec.restartPolicy), waiting)),
      ...options.pod.spec.containers.map((spec) => new Container(this.#context, spec, 'app', waiting)),
    ];
  }

  get pod(): Pod {
    return this.#pod;
  }

  get sandbox(): PodIsolation | undefined {
    return this.#sandbox;
  }

  start(): void {
    this.#publishSoon();
    this.#work = this.#live().catch((error: unknown) => this.#options.log(`pod ${this.#pod.metadata.name}: ${(error as Error).stack}`));
    void this.#work.then(() => this.#settled());
    void this.#watchActiveDeadline();
  }

  /** The Pod's object has changed. */
  update(pod: Pod): void {
    const before = this.#pod;
    this.#pod = pod;
    if (pod.metadata.deletionTimestamp === undefined) {
      if (JSON.stringify(pod.metadata) !== JSON.stringify(before.metadata)) this.#refreshVolumes();
      return;
    }
    if (this.lost) return;
    // The deletion's time is its request plus the grace; a second delete may have shortened it.
    this.#end(Date.parse(pod.metadata.deletionTimestamp) + 999);
    if (this.#removed) this.#remove();
  }

  /** A ConfigMap or Secret of the namespace has changed. */
  configChanged(): void {
    for (const wake of this.#configWaiters) wake();
    this.#configWaiters.clear();
    if (this.#sandbox !== undefined) this.#refreshVolumes();
  }

  /** The object is gone without us (force delete): its processes get a second. */
  async abandon(): Promise<void> {
    this.lost = false;
    this.stuck = false;
    this.#removed = true;
    this.#end(Date.now() + 1000);
    await this.#ending;
  }

  /** The cluster closes: everything goes at once. */
  async destroy(): Promise<void> {
    this.lost = true;
    this.stuck = false;
    this.#stopping.abort();
    clearImmediate(this.#publishing);
    await this.#sandbox?.close();
    await this.#work;
    await this.#cleanUp();
  }

  /** Ends the Pod for good without deleting its object: evicted, over its deadline. */
  fail(reason: string, message: string, condition?: Omit<Condition, 'lastTransitionTime' | 'lastProbeTime'>): void {
    this.#verdict = { reason, message };
    if (condition !== undefined) this.#extra.push(condition);
    this.#end(Date.now() + (this.#pod.spec.terminationGracePeriodSeconds ?? 30) * 1000);
  }

  #makeContext(): PodContext {
    const { store, images, record, folder } = this.#options;
    const stage: FaultStage = { store, record, worker: () => this, stopping: this.#stopping.signal };
    return {
      store,
      images,
      folder,
      pod: () => this.#pod,
      volumes: () => this.#volumes,
      isolation: () => this.#openSandbox(),
      stopping: this.#stopping.signal,
      record: (event) => {
        if (!this.lost) record(this.#pod, 'kubelet', event);
      },
      changed: () => this.#publishSoon(),
      configChange: (ms) => this.#configChange(ms),
      actOut: (kind) => void actOut(kind, stage),
    };
  }

  async #live(): Promise<void> {
    mkdirSync(this.#options.folder, { recursive: true });
    if (!(await this.#setUpVolumes())) return;
    await this.#openSandbox();
    const running: Promise<void>[] = [];
    for (const container of this.containers) {
      if (this.#stopping.signal.aborted) break;
      const run = container.run();
      if (container.role === 'app') running.push(run);
      else if (container.role === 'sidecar') {
        void run;
        await Promise.race([container.initialized, this.#aborted()]);
      } else await run;
      if (container.role === 'init' && container.status.state.terminated?.exitCode !== 0) return this.#publishSoon();
    }
    await Promise.all(running);
  }

  /** All containers have ended by themselves (or the Pod is ending): a finished Pod lets go of its sandbox. */
  async #settled(): Promise<void> {
    if (this.#stopping.signal.aborted || this.lost) return;
    await this.#endSidecars(() => Date.now() + 30_000);
    await this.#closeSandbox();
    this.#publishSoon();
  }

  async #setUpVolumes(): Promise<boolean> {
    for (const volume of this.#pod.spec.volumes ?? []) {
      for (;;) {
        if (this.#stopping.signal.aborted) return false;
        try {
          this.#volumes.set(volume.name, setUpVolume(this.#volumeOptions(), volume));
          break;
        } catch (error) {
          if (!(error instanceof MountError)) throw error;
          const message = `MountVolume.SetUp failed for volume "${volume.name}" : ${error.message}`;
          this.#context.record({ type: 'Warning', reason: 'FailedMount', message });
          await this.#configChange(2000);
        }
      }
    }
    return true;
  }

  #volumeOptions(): VolumeOptions {
    const { store, folder, isolation } = this.#options;
    const root = isolation.memoryRoot === undefined ? join(folder, 'memory') : join(isolation.memoryRoot, this.#pod.metadata.uid);
    return { store, pod: this.#pod, podIP: this.#podIP ?? '', folder, memoryFolder: (name) => join(root, name) };
  }

  #refreshVolumes(): void {
    for (const volume of this.#pod.spec.volumes ?? []) {
      if (!this.#volumes.has(volume.name) || volume.persistentVolumeClaim || volume.emptyDir || volume.hostPath) continue;
      try {
        setUpVolume(this.#volumeOptions(), volume);
      } catch (error) {
        // As the kubelet: what was mounted stays as it is.
        if (!(error instanceof MountError)) throw error;
        const message = `MountVolume.SetUp failed for volume "${volume.name}" : ${error.message}`;
        this.#context.record({ type: 'Warning', reason: 'FailedMount', message });
      }
    }
  }

  #opening: Promise<PodIsolation> | undefined;

  #openSandbox(): Promise<PodIsolation> {
    this.#opening ??= this.#makeSandbox();
    return this.#opening;
  }

  async #makeSandbox(): Promise<PodIsolation> {
    const { isolation, folder } = this.#options;
    const { uid, name } = this.#pod.metadata;
    const options = this.#volumeOptions();
    const place = { uid, hostname: (this.#pod.spec.hostname ?? name).slice(0, 63), folder, memoryFolders: memoryFolders(options) };
    const sandbox = await isolation.openPod(place);
    this.#sandbox = sandbox;
    this.#podIP = sandbox.podIP;
    this.#publishSoon();
    void sandbox.ended.then(() => {
      if (this.#sandbox !== sandbox) return;
      this.#sandbox = undefined;
      this.#opening = undefined;
      if (this.#stopping.signal.aborted) return;
      this.#context.record({ type: 'Normal', reason: 'SandboxChanged', message: 'Pod sandbox changed, it will be killed and re-created.' });
      this.#publishSoon();
    });
    return sandbox;
  }

  async #closeSandbox(): Promise<void> {
    const sandbox = this.#sandbox;
    this.#sandbox = undefined;
    await sandbox?.close();
  }

  #end(deadline: number): void {
    this.#deadline = Math.min(this.#deadline, deadline);
    this.#stopping.abort();
    this.#ending ??= this.#shutDown();
  }

  async #shutDown(): Promise<void> {
    const byDeadline = () => this.#deadline;
    const stop = (container: Container) => container.stop(`Stopping container ${container.spec.name}`, byDeadline);
    await Promise.all(this.containers.filter(({ role }) => role !== 'sidecar').map(stop));
    await this.#endSidecars(byDeadline);
    await this.#work;
    await this.#closeSandbox();
    if (this.#verdict !== undefined && this.#pod.metadata.deletionTimestamp === undefined) this.#publishSoon();
    while (this.stuck) await pause(500);
    if (this.#pod.metadata.deletionTimestamp !== undefined || this.#removed) {
      clearImmediate(this.#publishing);
      this.#over = true;
      this.#publish();
      await this.#cleanUp();
      this.#removed = true;
      this.#remove();
      this.#options.done();
    } else this.#ending = undefined;
  }

  async #endSidecars(deadline: () => number): Promise<void> {
    for (const container of this.containers.filter(({ role }) => role === 'sidecar').reverse()) {
      await container.stop(`Stopping container ${container.spec.name}`, deadline);
    }
  }

  /** Finalizers of others keep the object; the grace of 0 says that the node is done with it. */
  #remove(): void {
    const { namespace, name, uid, finalizers } = this.#pod.metadata;
    const { store } = this.#options;
    if ((finalizers ?? []).length === 0) store.remove('pods', namespace, name, uid);
    else store.update('pods', namespace, name, (draft) => void (draft.metadata.deletionGracePeriodSeconds = 0), uid);
  }

  async #cleanUp(): Promise<void> {
    removeVolumes(this.#options.folder, memoryFolders(this.#volumeOptions()));
  }

  async #watchActiveDeadline(): Promise<void> {
    const seconds = this.#pod.spec.activeDeadlineSeconds;
    if (seconds === undefined) return;
    await pause(seconds * 1000, this.#stopping.signal);
    if (this.#stopping.signal.aborted || ['Succeeded', 'Failed'].includes(this.#pod.status?.phase ?? '')) return;
    const message = 'Pod was active on the node longer than the specified deadline';
    this.#context.record({ type: 'Normal', reason: 'DeadlineExceeded', message });
    this.fail('DeadlineExceeded', message);
  }

  #aborted(): Promise<void> {
    const { signal } = this.#stopping;
    return new Promise((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  async #configChange(ms: number): Promise<void> {
    const timer = new AbortController();
    const wake = () => timer.abort();
    this.#configWaiters.add(wake);
    await pause(ms, AbortSignal.any([timer.signal, this.#stopping.signal]));
    this.#configWaiters.delete(wake);
  }

  /** Changes of one turn are one write. */
  #publishSoon(): void {
    this.#publishing ??= setImmediate(() => this.#publish());
  }

  #publish(): void {
    this.#publishing = undefined;
    if (this.lost) return;
    const { namespace, name, uid } = this.#pod.metadata;
    const statuses = (roles: readonly Role[]) => this.containers.filter(({ role }) => roles.includes(role)).map(({ status }) => structuredClone(status));
    const written = this.#options.store.update(
      'pods',
      namespace,
      name,
      (draft) => {
        draft.status = buildStatus({
          pod: draft as Pod,
          init: statuses(['init', 'sidecar']),
          sidecars: new Set(this.containers.filter(({ role }) => role === 'sidecar').map(({ spec }) => spec.name)),
          app: statuses(['app']),
          podIP: this.#podIP,
          startTime: this.#startTime,
          sandbox: this.#sandbox !== undefined,
          ...(this.#verdict === undefined || this.#sandbox !== undefined ? {} : { verdict: this.#verdict }),
          over: this.#over,
          extra: this.#extra,
          now: kubeTime(),
        });
      },
      uid,
    );
    if (written !== undefined) this.#pod = written as Pod;
  }
}

export function isOurs(pod: Pod): boolean {
  return pod.spec.nodeName === nodeName;
}
