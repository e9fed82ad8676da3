import { request } from 'node:http';
import { request as secureRequest } from 'node:https';
import type { V1Container, V1ExecAction, V1HTTPGetAction, V1TCPSocketAction } from '@kubernetes/client-node';
import { askForFile } from './file-probe.ts';
import type { ContainerSetup, PodIsolation } from './isolation.ts';
import { endOfRead } from './supervisor-client.ts';

/** What a probe or a lifecycle hook does. */
export interface Handler {
  readonly exec?: V1ExecAction;
  readonly httpGet?: V1HTTPGetAction;
  readonly tcpSocket?: V1TCPSocketAction;
}

export interface Target {
  readonly isolation: PodIsolation;
  readonly setup: ContainerSetup;
  readonly container: V1Container;
}

/** Runs a handler; undefined when it succeeded, else what went wrong. Never rejects. */
export async function runHandler(target: Target, handler: Handler, timeoutMs: number): Promise<string | undefined> {
  try {
    if (handler.exec) return await runExec(target, handler.exec.command ?? [], timeoutMs);
    if (handler.httpGet) return await runHttp(target, handler.httpGet, timeoutMs);
    if (handler.tcpSocket) {
      (await target.isolation.dial(portOf(target.container, handler.tcpSocket.port))).destroy();
      return undefined;
    }
    return 'this kind of probe is not implemented by the embedded cluster';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

async function runExec({ isolation, setup }: Target, command: readonly string[], timeoutMs: number): Promise<string | undefined> {
  const known = await askForFile(isolation, setup, command);
  if (known !== undefined) return known ? undefined : '';
  const run = await isolation.start(setup, command, { main: false, stdin: false, tty: false, memoryLimit: undefined });
  let output = '';
  for (const stream of [run.stdout, run.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      if (output.length < 10_240) output += chunk;
    });
  }
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    run.kill();
  }, timeoutMs);
  const { exitCode } = await endOfRead(run);
  clearTimeout(timer);
  if (late) return `command timed out: "${command.join(' ')}" timed out after ${timeoutMs / 1000}s`;
  return exitCode === 0 ? undefined : output;
}

export function portOf(container: V1Container, port: unknown): number {
  const named = (container.ports ?? []).find(({ name }) => name === port);
  return named?.containerPort ?? Number(port);
}

async function runHttp(
  { isolation, container }: Target,
  action: V1HTTPGetAction,
  timeoutMs: number,
): Promise<string | undefined> {
  const port = portOf(container, action.port);
  const secure = action.scheme === 'HTTPS';
  const url = `${secure ? 'https' : 'http'}://${isolation.podIP}:${port}${action.path ?? '/'}`;
  const refused = (reason: string) => `Get "${url}": ${reason}`;
  let socket: Awaited<ReturnType<PodIsolation['dial']>>;
  try {
    socket = await isolation.dial(port);
  } catch {
    return refused(`dial tcp ${isolation.podIP}:${port}: connect: connection refused`);
  }
  const headers = Object.fromEntries((action.httpHeaders ?? []).map(({ name, value }) => [name, value]));
  return new Promise((resolve) => {
    const options = {
      method: 'GET',
      path: action.path ?? '/',
      headers: { host: `${isolation.podIP}:${port}`, ...headers },
      agent: false,
    };
    const call = (secure ? secureRequest : request)({
      ...options,
      createConnection: () => socket as never,
      ...(secure ? { rejectUnauthorized: false } : {}),
    });
    const timer = setTimeout(
      () => call.destroy(new Error('context deadline exceeded (Client.Timeout exceeded while awaiting headers)')),
      timeoutMs,
    );
    call.on('response', (response) => {
      response.resume();
      const { statusCode = 0 } = response;
      resolve(statusCode >= 200 && statusCode < 400 ? undefined : `HTTP probe failed with statuscode: ${statusCode}`);
      call.destroy();
    });
    call.on('error', (error) => resolve(refused(error.message)));
    call.on('close', () => {
      clearTimeout(timer);
      resolve(refused('EOF'));
    });
    call.end();
  });
}
