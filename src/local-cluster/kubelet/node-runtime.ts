import type { Duplex } from 'node:stream';
import { PassThrough } from 'node:stream';
import type { ContainerRef, NodeRuntime, RunningProcess } from '../types.ts';
import type { Container } from './container.ts';
import { streamLog } from './log-stream.ts';
import { Refusal } from './pod-types.ts';
import type { PodWorker } from './pod-worker.ts';
import { describeStartError } from './start-error.ts';
import type { Run } from './supervisor-client.ts';

type Streams = Pick<NodeRuntime, 'exec' | 'attach' | 'logs' | 'dial'>;

/** What the API server asks of running Pods, answered in the kubelet's words. */
export function createStreams(workerOf: (podUid: string) => PodWorker | undefined): Streams {
  const find = (ref: ContainerRef): { worker: PodWorker; container: Container } => {
    const worker = workerOf(ref.podUid);
    const container = worker?.containers.find(({ spec }) => spec.name === ref.container);
    if (worker === undefined || container === undefined) throw new Refusal(404, `container not found ("${ref.container}")`);
    if (worker.lost) throw new Refusal(500, 'error dialing backend: dial tcp 127.0.0.1:10250: connect: no route to host');
    return { worker, container };
  };
  return {
    async exec(ref, command, { stdin, tty }) {
      const { container } = find(ref);
      const { live } = container;
      if (live === undefined) throw new Refusal(500, `container not found ("${ref.container}")`);
      try {
        const run = await live.isolation.start(live.prepared.setup, command, { main: false, stdin, tty, memoryLimit: undefined });
        return asProcess(run, stdin, tty);
      } catch (error) {
        const reason = describeStartError(command[0] ?? '', error instanceof Error ? error.message : String(error));
        throw new Refusal(
          500,
          `error executing command in container: failed to exec in container: OCI runtime exec failed: exec failed: ${reason}`,
        );
      }
    },
    async attach(ref, { stdin }) {
      const { worker, container } = find(ref);
      const { live } = container;
      const { name, namespace } = worker.pod.metadata;
      if (live === undefined) throw new Refusal(500, `container ${ref.container} not found in pod ${name}_${namespace}`);
      return attached(live.run, stdin && container.spec.stdin === true, container.spec.tty === true);
    },
    async logs(ref, options) {
      const { worker, container } = find(ref);
      const name = `"${ref.container}" in pod "${worker.pod.metadata.name}"`;
      const log = options.previous ? container.previousLog : container.log;
      if (log !== undefined) return streamLog(log, options);
      if (options.previous) throw new Refusal(400, `previous terminated container ${name} not found`);
      const { waiting } = container.status.state;
      const trouble = waiting?.reason ?? 'ContainerCreating';
      const trying = /ErrImagePull|ImagePullBackOff/.test(trouble) ? 'trying and failing to pull image' : trouble;
      throw new Refusal(400, `container ${name} is waiting to start: ${trying}`);
    },
    dial: (podUid, port) => dial(workerOf(podUid), port),
  };
}

async function dial(worker: PodWorker | undefined, port: number): Promise<Duplex> {
  const sandbox = worker?.sandbox;
  if (worker === undefined || worker.lost || sandbox === undefined) throw new Refusal(404, 'pod sandbox is not running');
  try {
    return await sandbox.dial(port);
  } catch {
    throw new Refusal(
      500,
      `failed to connect to localhost:${port} inside namespace "${worker.pod.metadata.uid}", IPv4: dial tcp4 127.0.0.1:${port}: connect: connection refused IPv6 dial tcp6 [::1]:${port}: connect: connection refused`,
    );
  }
}

function asProcess(run: Run, stdin: boolean, tty: boolean): RunningProcess {
  return {
    stdin: stdin ? run.stdin : undefined,
    stdout: run.stdout,
    stderr: tty ? undefined : run.stderr,
    exit: run.exit.then(({ exitCode }) => ({ exitCode })),
    resize: (columns, rows) => run.resize(columns, rows),
    kill: () => run.kill(),
  };
}

/** Listens in: the container's log goes on as before, and leaving ends nothing. */
function attached(run: Run, stdin: boolean, tty: boolean): RunningProcess {
  const copy = (from: PassThrough): PassThrough => {
    const to = new PassThrough();
    from.on('data', (chunk: Buffer) => to.write(chunk));
    from.once('end', () => to.end());
    return to;
  };
  const stdout = copy(run.stdout);
  const stderr = tty ? undefined : copy(run.stderr);
  const input = stdin ? new PassThrough() : undefined;
  input?.on('data', (chunk: Buffer) => run.stdin.write(chunk));
  return {
    stdin: input,
    stdout,
    stderr,
    exit: run.exit.then(({ exitCode }) => ({ exitCode })),
    resize: (columns, rows) => run.resize(columns, rows),
    kill: () => {
      stdout.end();
      stderr?.end();
    },
  };
}
