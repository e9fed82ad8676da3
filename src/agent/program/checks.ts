import type { CreateInstanceRequest, ExecStart } from '../protocol.ts';

/** Shapes of what arrives over the wire: either the value, or a text that says what is wrong with it. */
export function isStringMap(value: unknown): value is Record<string, string> {
  return isObject(value) && Object.values(value).every((item) => typeof item === 'string');
}

export function createRequest(value: unknown): CreateInstanceRequest | string {
  if (!isObject(value)) return 'the body must be an object';
  const { id, workspace_path: workspace, env, command } = value;
  if (typeof id !== 'string' || id === '' || id.length > 1024) return 'id must be a text of 1 to 1024 characters';
  if (typeof workspace !== 'string' || !workspace.startsWith('/')) return 'workspace_path must be an absolute path';
  if (env !== undefined && !isEnv(env)) return 'env must map names to texts';
  if (command !== undefined && !isArgv(command)) return 'command must be a list of texts, the program first';
  return {
    id,
    workspace_path: workspace,
    ...(env === undefined ? {} : { env }),
    ...(command === undefined ? {} : { command }),
  };
}

export function execStart(value: unknown): ExecStart | string {
  if (!isObject(value)) return 'the start frame must be an object';
  const { command, env, workdir, stdin, timeoutMs } = value;
  if (!isArgv(command)) return 'command must be a list of texts, the program first';
  if (env !== undefined && !isEnv(env)) return 'env must map names to texts';
  if (workdir !== undefined && (typeof workdir !== 'string' || workdir.includes('\0'))) return 'workdir must be a path';
  if (typeof stdin !== 'boolean') return 'stdin must be true or false';
  if (timeoutMs !== undefined && !isDelay(timeoutMs)) return 'timeoutMs must be 1 to 2147483647';
  return {
    command,
    stdin,
    ...(env === undefined ? {} : { env }),
    ...(workdir === undefined ? {} : { workdir }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isEnv(value: unknown): value is Record<string, string> {
  return isStringMap(value) && Object.entries(value).every(([name, text]) => /^[^=\0]+$/.test(name) && !text.includes('\0'));
}

function isArgv(value: unknown): value is string[] {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value[0] !== '' &&
    value.every((item) => typeof item === 'string' && !item.includes('\0'))
  );
}

/** Longer ones overflow a timer, which would then fire at once. */
function isDelay(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= 2 ** 31 - 1;
}
