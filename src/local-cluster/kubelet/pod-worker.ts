import { mkdirSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type { KubeObject, Store } from '../types.ts';
import { Container } from './container.ts';
import type { Recorder } from './events.ts';
import { actOut, type FaultStage } from './fault-acts.ts';
import type { Isolation, PodIsolation, PodPlace } from './isolation.ts';
import type { PodContext, Role } from './pod-context.ts';
import { PodSandbox } from './pod-sandbox.ts';
import { kubeTime, type NewCondition, nodeName, type Pod } from './pod-types.ts';
import { attachDelayMs, PodVolumes } from './pod-volumes.ts';
import { buildStatus } from './status.ts';
import { pause, untilAborted } from './timing.ts';

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
  readonly #aborted = untilAborted(this.#stopping.signal);
  readonly #startTime = kubeTime();
  readonly #context: PodContext;
  readonly #volumes: PodVolumes;
  readonly #configWaiters = new Set<() => void>();
  #pod: Pod;
  readonly #sandbox: PodSandbox;
  readonly #runs: Promise<void>[] = [];
  #deletedAt: number | undefined;
  #deadline = Number.POSITIVE_INFINITY;
  #verdict: { reason: string; message: string } | undefined;
  readonly #extra: NewCondition[] = [];
  #publishing: NodeJS.Immediate | undefined;
  #ending: Promise<void> | undefined;
  #work: Promise<void> = Promise.resolve();
  #removed = false;
  #over = false;

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#pod = options.pod;
    this.#context = this.#makeContext();
    this.#volumes = new PodVolumes({
      store: options.store,
      pod: () => this.#pod,
      podIP: () => this.#sandbox.podIP ?? '',
      folder: options.folder,
      memoryRoot: options.isolation.memoryRoot,
      failed: (message) => this.#context.record({ type: 'Warning', reason: 'FailedMount', message }),
    });
    this.#sandbox = new PodSandbox({
      isolation: options.isolation,
      place: () => this.#place(),
      stopping: this.#stopping.signal,
      record: (type, reason, message) => this.#context.record({ type, reason, message }),
      changed: () => this.#publishSoon(),
    });
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
    return this.#sandbox.current;
  }

  start(): void {
    this.#publishSoon();
    this.#work = this.#live().catch((error: unknown) => this.#failed(error));
    void this.#work.then(() => this.#settled()).catch((error: unknown) => this.#failed(error));
    void this.#watchActiveDeadline();
  }

  /** The Pod's object has changed. */
  update(pod: Pod): void {
    const before = this.#pod;
    this.#pod = pod;
    const { labels, annotations, deletionTimestamp, deletionGracePeriodSeconds = 0 } = pod.metadata;
    if (deletionTimestamp === undefined) {
      const seen = [before.metadata.labels, before.metadata.annotations];
      if (!isDeepStrictEqual([labels, annotations], seen)) this.#volumes.refresh();
      return;
    }
    if (this.lost) return;
    // Counted by our own clock: the API's may be skewed by a fault. A second delete may shorten the grace.
    this.#deletedAt ??= Date.now();
    this.#end(this.#deletedAt + deletionGracePeriodSeconds * 1000);
    if (this.#removed) this.#remove();
  }

  /** A ConfigMap or Secret of the namespace has changed. */
  configChanged(): void {
    for (const wake of this.#configWaiters) wake();
    this.#configWaiters.clear();
    if (this.#sandbox.current !== undefined) this.#volumes.refresh();
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
    await this.#sandbox.close();
    await Promise.all([this.#work, ...this.#runs]);
    // One that was being made just then.
    await this.#sandbox.close();
    await this.#volumes.remove();
  }

  /** Ends the Pod for good without deleting its object: evicted, over its deadline. */
  fail(reason: string, message: string, graceSeconds: number, condition?: NewCondition): void {
    this.#verdict = { reason, message };
    if (condition !== undefined) this.#extra.push(condition);
    this.#end(Date.now() + graceSeconds * 1000);
  }

  #makeContext(): PodContext {
    const { store, images, record, folder } = this.#options;
    const stage: FaultStage = { store, record, worker: () => this, stopping: this.#stopping.signal };
    return {
      store,
      images,
      folder,
      pod: () => this.#pod,
      volumes: () => this.#volumes.all,
      isolation: () => this.#sandbox.open(),
      stopping: this.#stopping.signal,
      record: (event) => {
        if (!this.lost) record(this.#pod, 'kubelet', event);
      },
      changed: () => this.#publishSoon(),
      configChange: (ms) => this.#configChange(ms),
      actOut: (kind) => void actOut(kind, stage).catch((error: unknown) => this.#failed(error)),
    };
  }

  async #live(): Promise<void> {
    mkdirSync(this.#options.folder, { recursive: true });
    await pause(attachDelayMs(this.#options.store, this.#pod), this.#stopping.signal);
    await this.#setUpVolumes();
    await this.#sandbox.open();
    for (const container of this.containers) {
      if (this.#stopping.signal.aborted) return;
      const run = container.run().catch((error: unknown) => this.#failed(error));
      this.#runs.push(run);
      if (container.role === 'sidecar') await Promise.race([container.initialized, this.#aborted]);
      if (container.role !== 'init') continue;
      await run;
      if (container.status.state.terminated?.exitCode !== 0) return;
    }
    await Promise.all(this.#runs.filter((_, index) => this.containers[index]?.role !== 'sidecar'));
  }

  #failed(error: unknown): void {
    this.#options.log(`pod ${this.#pod.metadata.name}: ${error instanceof Error ? error.stack : String(error)}`);
  }

  /** All containers have ended by themselves: a finished Pod lets go of its sandbox. */
  async #settled(): Promise<void> {
    if (this.#stopping.signal.aborted || this.lost) return;
    await this.#endSidecars(() => Date.now() + 30_000);
    await this.#sandbox.close();
    this.#publishSoon();
  }

  #place(): PodPlace {
    const { uid, name } = this.#pod.metadata;
    const hostname = (this.#pod.spec.hostname ?? name).slice(0, 63);
    return { uid, hostname, folder: this.#options.folder, memoryFolders: this.#volumes.memoryFolders };
  }

  async #setUpVolumes(): Promise<void> {
    while (!this.#stopping.signal.aborted && !this.#volumes.setUp()) await this.#configChange(2000);
  }

  #end(deadline: number): void {
    this.#deadline = Math.min(this.#deadline, deadline);
    this.#stopping.abort();
    this.#ending ??= this.#shutDown().catch((error: unknown) => this.#failed(error));
  }

  async #shutDown(): Promise<void> {
    const byDeadline = () => this.#deadline;
    const stop = (container: Container) => container.end(`Stopping container ${container.spec.name}`, byDeadline);
    await Promise.all(this.containers.filter(({ role }) => role !== 'sidecar').map(stop));
    await this.#endSidecars(byDeadline);
    await Promise.all([this.#work, ...this.#runs]);
    await this.#sandbox.close();
    if (this.#verdict !== undefined && this.#pod.metadata.deletionTimestamp === undefined) this.#publishSoon();
    while (this.stuck) await pause(500);
    if (this.#pod.metadata.deletionTimestamp !== undefined || this.#removed) {
      clearImmediate(this.#publishing);
      this.#over = true;
      this.#publish();
      await this.#volumes.remove();
      this.#removed = true;
      this.#remove();
      this.#options.done();
    } else this.#ending = undefined;
  }

  async #endSidecars(deadline: () => number): Promise<void> {
    for (const container of this.containers.filter(({ role }) => role === 'sidecar').reverse()) {
      await container.end(`Stopping container ${container.spec.name}`, deadline);
    }
  }

  /** The grace of 0 says that the node is done with it; the finalizers of others keep the object all the same. */
  #remove(): void {
    const { namespace, name, uid, finalizers } = this.#pod.metadata;
    const { store } = this.#options;
    const release = (draft: KubeObject) => {
      draft.metadata.deletionGracePeriodSeconds = 0;
    };
    store.update('pods', namespace, name, release, uid);
    if ((finalizers ?? []).length === 0) store.remove('pods', namespace, name, uid);
  }

  async #watchActiveDeadline(): Promise<void> {
    const seconds = this.#pod.spec.activeDeadlineSeconds;
    if (seconds === undefined) return;
    await pause(seconds * 1000, this.#stopping.signal);
    if (this.#stopping.signal.aborted || ['Succeeded', 'Failed'].includes(this.#pod.status?.phase ?? '')) return;
    const message = 'Pod was active on the node longer than the specified deadline';
    this.#context.record({ type: 'Normal', reason: 'DeadlineExceeded', message });
    this.fail('DeadlineExceeded', message, this.#pod.spec.terminationGracePeriodSeconds ?? 30);
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
    const statuses = (roles: readonly Role[]) =>
      this.containers.filter(({ role }) => roles.includes(role)).map(({ status }) => structuredClone(status));
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
          podIP: this.#sandbox.podIP,
          startTime: this.#startTime,
          sandbox: this.#sandbox.current !== undefined,
          ...(this.#verdict === undefined || this.#sandbox.current !== undefined ? {} : { verdict: this.#verdict }),
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
