import { isIP } from 'node:net';
import { agentEnv, agentPort, podPaths } from '../protocol.ts';

export interface Settings {
  readonly workspace: string;
  readonly runDir: string;
  readonly optDir: string;
}

/** An end of the program that the worker, the kubelet or an operator tells apart by its exit code. */
export class Exit extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** Exit codes of our own; 73 and 78 as in sysexits: cannot create, wrong configuration. */
export const exitCodes = { usage: 64, badInput: 65, software: 70, cannotCreate: 73, configuration: 78 } as const;

/** The container's own environment, read here only. */
export const processEnv: Readonly<Record<string, string | undefined>> = process.env;

export function settingsOf(env: Readonly<Record<string, string | undefined>>): Settings {
  return {
    workspace: env[agentEnv.workspace] || podPaths.workspace,
    runDir: env[agentEnv.runDir] || podPaths.run,
    optDir: env[agentEnv.optDir] || podPaths.opt,
  };
}

/**
 * Where to listen: loopback, since forwards enter through the Pod's own, or one address of the Pod where the operator
 * chose transport pod_ip. Never all addresses: then loopback would be only one of the ways in.
 */
export function addressOf(env: Readonly<Record<string, string | undefined>>): { host: string; port: number } {
  const host = env[agentEnv.host] || '127.0.0.1';
  if (isIP(host) === 0 || isUnspecified(host)) {
    throw new Exit(exitCodes.configuration, `${agentEnv.host} must be a loopback address or the Pod's own, not ${host}`);
  }
  const port = Number(env[agentEnv.port] || agentPort);
  if (!Number.isInteger(port) || port < 0 || port > 65535) {
    throw new Exit(exitCodes.configuration, `${agentEnv.port} must be a port number`);
  }
  return { host, port };
}

/** 0.0.0.0 and the many spellings of ::. */
const isUnspecified = (host: string): boolean => /^[0:.]+$/.test(host.replace(/^::ffff:/i, ''));

/** `/workspace` in a request is the workspace wherever it is mounted (path mode of the local cluster maps it elsewhere). */
export function inWorkspace(settings: Settings, path: string): string {
  const asked = podPaths.workspace;
  if (path === asked) return settings.workspace;
  if (path.startsWith(`${asked}/`)) return settings.workspace + path.slice(asked.length);
  return path;
}
