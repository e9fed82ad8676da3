import type { Isolation, PodIsolation, PodPlace } from './isolation.ts';
import { pause } from './timing.ts';

export interface PodSandboxOptions {
  readonly isolation: Isolation;
  readonly place: () => PodPlace;
  /** Aborts when the Pod is to end. */
  readonly stopping: AbortSignal;
  readonly record: (type: 'Normal' | 'Warning', reason: string, message: string) => void;
  readonly changed: () => void;
}

/** How long until a sandbox that could not be made is tried again, in ms. */
const retryMs = 2000;

/** The sandbox of one Pod: made when first needed, again when it was killed, for as long as the Pod is to live. */
export class PodSandbox {
  current: PodIsolation | undefined;
  podIP: string | undefined;
  readonly #options: PodSandboxOptions;
  #opening: Promise<PodIsolation | undefined> | undefined;

  constructor(options: PodSandboxOptions) {
    this.#options = options;
  }

  /** Undefined when the Pod is to end before. */
  open(): Promise<PodIsolation | undefined> {
    this.#opening ??= this.#make();
    return this.#opening;
  }

  async close(): Promise<void> {
    const { current } = this;
    this.current = undefined;
    this.#opening = undefined;
    await current?.close();
  }

  async #make(): Promise<PodIsolation | undefined> {
    const { isolation, place, stopping, record, changed } = this.#options;
    while (!stopping.aborted) {
      try {
        const made = await isolation.openPod(place());
        this.current = made;
        this.podIP = made.podIP;
        void made.ended.then(() => this.#lost(made));
        changed();
        return made;
      } catch (error) {
        record('Warning', 'FailedCreatePodSandBox', `Failed to create pod sandbox: ${(error as Error).message}`);
        await pause(retryMs, stopping);
      }
    }
    return undefined;
  }

  /** Somebody killed it, and with it all containers: they start again in a new one. */
  #lost(made: PodIsolation): void {
    if (this.current !== made) return;
    this.current = undefined;
    this.#opening = undefined;
    if (this.#options.stopping.aborted) return;
    this.#options.record('Normal', 'SandboxChanged', 'Pod sandbox changed, it will be killed and re-created.');
    this.#options.changed();
  }
}
