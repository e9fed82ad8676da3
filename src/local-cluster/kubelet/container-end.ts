import { readFileSync } from 'node:fs';
import type { V1Container } from '@kubernetes/client-node';
import type { LogFile } from './log-file.ts';
import { logTail } from './log-stream.ts';
import { kubeTime, type Terminated } from './pod-types.ts';
import { describeStartError } from './start-error.ts';

const runtimePrefix =
  'failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed:';
const maxMessage = 4096;

export function startFailure(program: string, error: string, containerID: string): Terminated {
  const message = `${runtimePrefix} ${describeStartError(program, error)}`;
  return { exitCode: 128, reason: 'StartError', message, startedAt: '1970-01-01T00:00:00Z', finishedAt: kubeTime(), containerID };
}

export interface EndInput {
  readonly container: V1Container;
  readonly exitCode: number;
  readonly outOfMemory: boolean;
  readonly startedAt: string;
  readonly containerID: string;
  readonly terminationLog: string;
  readonly log: LogFile;
}

export function terminated(end: EndInput): Terminated {
  const { exitCode, startedAt, containerID } = end;
  const reason = end.outOfMemory ? 'OOMKilled' : exitCode === 0 ? 'Completed' : 'Error';
  const message = messageOf(end);
  return { exitCode, reason, ...(message === '' ? {} : { message }), startedAt, finishedAt: kubeTime(), containerID };
}

function messageOf({ container, exitCode, terminationLog, log }: EndInput): string {
  const written = readFileSync(terminationLog).subarray(0, maxMessage).toString();
  if (written !== '' || exitCode === 0 || container.terminationMessagePolicy !== 'FallbackToLogsOnError') return written;
  return logTail(log);
}
