import type { V1Container, V1Probe } from '@kubernetes/client-node';
import { parseQuantity } from '../api/quantity.ts';
import { startFailure, terminated } from './container-end.ts';
import { type PreparedContainer, prepareContainer } from './container-setup.ts';
import { ConfigError } from './environment.ts';
import { faultCommand, isOutOfMemory } from './faults.ts';
import { runHandler } from './handler.ts';
import { type PulledImage, pullImage } from './image-pull.ts';
import type { PodIsolation } from './isolation.ts';
import { LogFile } from './log-file.ts';
import { fieldPath, type PodContext, type Role } from './pod-context.ts';
import { type ContainerState, type ContainerStatus, kubeTime, podFullName } from './pod-types.ts';
import { probe } from './probes.ts';
import { stopProcess } from './stop.ts';
import { endOfRead, type Run } from './supervisor-client.ts';
import { BackOff, pause, untilAborted } from './timing.ts';

/** One start of a container that is running now. */
export interface LiveContainer {
  readonly run: Run;
  readonly prepared: PreparedContainer;
  readonly isolation: PodIsolation;
  readonly startedAt: number;
}

/** One container of a Pod: gets its image, starts it, and starts it again by the Pod's restart policy. */
export class Container {
  readonly spec: V1Container;
  readonly role: Role;
  readonly status: ContainerStatus;
  log: LogFile | undefined;
  previousLog: LogFile | undefined;
  live: LiveContainer | undefined;
  readonly #context: PodContext;
  readonly #backOff = new BackOff(0);
  #attempt = 0;
  #isOver = false;
  #settleInitialized: () => void = () => {};
  /** Settles when the next container may start: a sidecar has started, another init container succeeded. */
  readonly initialized: Promise<void>;

  constructor(context: PodContext, spec: V1Container, role: Role, waiting: string) {
    this.#context = context;
    this.spec = spec;
    this.role = role;
    this.status = {
      name: spec.name,
      state: { waiting: { reason: waiting } },
      lastState: {},
      ready: false,
      started: false,
      restartCount: 0,
      image: spec.image ?? '',
      imageID: '',
      ...mountStatus(spec),
    };
    this.initialized = new Promise((resolve) => {
      this.#settleInitialized = resolve;
    });
  }

  /** Settles when the container has ended for good, or when the Pod is to end and it does not run. */
  async run(): Promise<void> {
    while (!this.#context.stopping.aborted && !this.#isOver) {
      const image = await pullImage(this.#context, this.spec, {
        record: (type, reason, message) => this.record(type, reason, message),
        waiting: (waiting) => this.#set({ waiting }),
      });
      if (image === undefined) return;
      const ranForMs = await this.#runOnce(image);
      if (ranForMs === undefined || this.#context.stopping.aborted || !this.#restarts()) return;
      await this.#waitToRestart(ranForMs);
    }
  }

  record(type: 'Normal' | 'Warning', reason: string, message: string): void {
    this.#context.record({ type, reason, message, fieldPath: fieldPath(this.role, this.spec) });
  }

  /** Ends it for good; `deadline` is the time of SIGKILL. */
  async end(message: string, deadline: () => number): Promise<void> {
    this.#isOver = true;
    await this.#stop(message, deadline);
  }

  async #stop(message: string, deadline: () => number): Promise<void> {
    const { live } = this;
    if (live === undefined) return;
    this.record('Normal', 'Killing', message);
    await stopProcess({ ...live, setup: live.prepared.setup, container: this.spec }, deadline, (trouble) =>
      this.record('Warning', 'FailedPreStopHook', `PreStopHook failed: ${trouble}`),
    );
  }

  #set(state: ContainerState): void {
    this.status.state = state;
    this.#context.changed();
  }

  #restarts(): boolean {
    const policy = this.#context.pod().spec.restartPolicy ?? 'Always';
    const failed = (this.status.state.terminated?.exitCode ?? 1) !== 0;
    if (this.#isOver) return false;
    if (this.role === 'sidecar') return true;
    if (this.role === 'init') return failed && policy !== 'Never';
    return policy === 'Always' || (policy === 'OnFailure' && failed);
  }

  async #waitToRestart(ranForMs: number): Promise<void> {
    const ended = this.status.state.terminated;
    const wait = this.#backOff.take(ranForMs);
    // The end is seen before the next start, as it is while the kubelet looks at its containers once a second.
    if (wait === 0) return pause(500, this.#context.stopping);
    await pause(500, this.#context.stopping);
    if (ended !== undefined) this.status.lastState = { terminated: ended };
    const full = podFullName(this.#context.pod());
    this.record('Warning', 'BackOff', `Back-off restarting failed container ${this.spec.name} in pod ${full}`);
    const message = `back-off ${duration(wait)} restarting failed container=${this.spec.name} pod=${full}`;
    this.#set({ waiting: { reason: 'CrashLoopBackOff', message } });
    await pause(wait - 500, this.#context.stopping);
    if (this.#context.stopping.aborted && ended !== undefined) this.#set({ terminated: ended });
  }

  /** How long it ran, in ms; undefined when it was not started because the Pod is to end. */
  async #runOnce(image: PulledImage): Promise<number | undefined> {
    const isolation = await this.#context.isolation();
    const prepared = isolation && (await this.#prepare(image, isolation));
    if (isolation === undefined || prepared === undefined) return undefined;
    this.#attempt += 1;
    const before = this.status.state.terminated ?? this.status.lastState.terminated;
    if (before !== undefined) {
      this.status.lastState = { terminated: before };
      this.status.restartCount += 1;
    }
    const containerID = `containerd://${prepared.setup.id}`;
    Object.assign(this.status, { containerID, image: image.fullName, imageID: image.id, resources: this.spec.resources ?? {} });
    this.previousLog = this.log ?? this.previousLog;
    this.log = new LogFile(prepared.terminationLog.replace(/termination-log$/, 'log'));
    this.record('Normal', 'Created', `Created container: ${this.spec.name}`);
    const argv = faultCommand(image.fault) ?? prepared.argv;
    try {
      const { stdin = false, tty = false, resources } = this.spec;
      const memoryLimit = bytes(resources?.limits?.memory);
      const run = await isolation.start(prepared.setup, argv, { main: true, stdin, tty, memoryLimit });
      return await this.#watch({ run, prepared, isolation, startedAt: Date.now() }, image);
    } catch (error) {
      const end = startFailure(argv[0] ?? '', error instanceof Error ? error.message : String(error), containerID);
      this.log.end();
      this.record('Warning', 'Failed', `Error: ${end.message}`);
      this.#set({ terminated: end });
      return 0;
    }
  }

  /** Retried until the configuration is right. */
  async #prepare(image: PulledImage, isolation: PodIsolation): Promise<PreparedContainer | undefined> {
    if (image.fault?.kind === 'never-start') await untilAborted(this.#context.stopping);
    if (image.fault?.kind === 'slow-start') await pause(image.fault.value * 1000, this.#context.stopping);
    while (!this.#context.stopping.aborted) {
      try {
        if (image.fault?.kind === 'create-config-error') throw new ConfigError('configmap "fault" not found');
        return await prepareContainer(this.#context, isolation, this.spec, image.toolbox, this.#attempt);
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error;
        this.record('Warning', 'Failed', `Error: ${error.message}`);
        this.#set({ waiting: { reason: 'CreateContainerConfigError', message: error.message } });
        await this.#context.configChange(10_000);
      }
    }
    return undefined;
  }

  async #watch(live: LiveContainer, image: PulledImage): Promise<number> {
    const { run, prepared, isolation, startedAt } = live;
    const { log, spec } = this;
    const ended = new AbortController();
    this.live = live;
    // Started in the very moment the Pod was ended: nobody else would end it.
    if (this.#context.stopping.aborted || this.#isOver) run.signal('SIGKILL', false);
    run.stdout.on('data', (chunk: Buffer) => log?.write('stdout', chunk));
    run.stderr.on('data', (chunk: Buffer) => log?.write('stderr', chunk));
    const over = endOfRead(run);
    if (spec.stdin !== true) run.stdin.end();
    this.record('Normal', 'Started', `Started container ${spec.name}`);
    this.#set({ running: { startedAt: kubeTime(startedAt) } });
    if (image.fault !== undefined) this.#context.actOut(image.fault.kind);
    if (isOutOfMemory(image.fault)) void pause(1000, ended.signal).then(() => run.signal('SIGKILL', false));
    const probing = this.#afterStart({ isolation, setup: prepared.setup, container: spec }, ended.signal);
    const { exitCode, outOfMemory = false } = await over;
    ended.abort();
    this.live = undefined;
    log?.end();
    await probing;
    const end = terminated({
      container: spec,
      exitCode,
      outOfMemory: outOfMemory || (isOutOfMemory(image.fault) && exitCode === 137),
      startedAt: kubeTime(startedAt),
      containerID: `containerd://${prepared.setup.id}`,
      terminationLog: prepared.terminationLog,
      log: log as LogFile,
    });
    Object.assign(this.status, { started: false, ready: this.role === 'init' && exitCode === 0 });
    if (this.role === 'init' && exitCode === 0) this.#settleInitialized();
    this.#set({ terminated: end });
    return Date.now() - startedAt;
  }

  async #afterStart(target: Parameters<typeof probe>[0], signal: AbortSignal): Promise<void> {
    const postStart = this.spec.lifecycle?.postStart;
    if (postStart !== undefined) {
      const trouble = await runHandler(target, postStart, 3_600_000);
      if (trouble !== undefined && !signal.aborted) {
        this.record('Warning', 'FailedPostStartHook', `PostStartHook failed: ${trouble}`);
        return this.#stop('FailedPostStartHook', () => Date.now() + 30_000);
      }
    }
    await probe(
      target,
      {
        started: () => {
          this.status.started = true;
          if (this.role === 'sidecar') this.#settleInitialized();
          this.#context.changed();
        },
        ready: (ready) => {
          if (this.role === 'init' || this.status.ready === ready) return;
          this.status.ready = ready;
          this.#context.changed();
        },
        failed: (_kind, message) => this.record('Warning', 'Unhealthy', message),
        unhealthy: (kind, one) => void this.#restart(kind, one),
      },
      signal,
    );
  }

  async #restart(kind: string, { terminationGracePeriodSeconds }: V1Probe): Promise<void> {
    const grace = terminationGracePeriodSeconds ?? this.#context.pod().spec.terminationGracePeriodSeconds ?? 30;
    const deadline = Date.now() + grace * 1000;
    await this.#stop(`Container ${this.spec.name} failed ${kind.toLowerCase()} probe, will be restarted`, () => deadline);
  }
}

function mountStatus({ volumeMounts = [] }: V1Container) {
  const mounts = volumeMounts.map(({ name, mountPath, readOnly }) => ({
    name,
    mountPath,
    ...(readOnly === true ? { readOnly, recursiveReadOnly: 'Disabled' } : {}),
  }));
  return mounts.length === 0 ? {} : { volumeMounts: mounts };
}

function bytes(quantity: string | undefined): number | undefined {
  const value = quantity === undefined ? undefined : parseQuantity(quantity);
  return value === undefined ? undefined : Number(value / 1000n);
}

/** As Go writes it: 10s, 1m20s, 5m0s. */
function duration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}
