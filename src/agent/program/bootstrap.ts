import { createHash } from 'node:crypto';
import { chmodSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { isStringMap } from './checks.ts';
import { readIfThere, safeFolder, writeAtomic } from './files.ts';
import { Exit, exitCodes, type Settings } from './settings.ts';

interface Input {
  readonly runtimeEnv: Record<string, string>;
  readonly authEnv: Record<string, string>;
  readonly secretNames: string[];
  readonly prepare?: string;
  readonly nonce: string;
}

/** Twice what a request may hold, so that only a broken sender reaches it. */
const maxInput = 1 << 20;
const envName = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Writes what one exec brings through stdin, the start marker last, and returns the sha256 of the input: the worker
 * compares it, since an exec that ended without an error has proven nothing (C58). Running it again is harmless.
 */
export async function bootstrap(settings: Settings, stdin: Readable): Promise<string> {
  process.umask(0o077);
  const json = await readCounted(stdin);
  const digest = createHash('sha256').update(json).digest('hex');
  const input = parse(json);
  safeFolder(settings.runDir);
  safeFolder(settings.optDir);
  const marker = join(settings.runDir, 'start');
  if (readIfThere(marker)?.toString() === digest) return digest;
  // Another content than before: without the marker a container that restarts now waits instead of reading a mixture.
  rmSync(marker, { force: true });
  writeAtomic(join(settings.optDir, 'runtime.json'), JSON.stringify(input.runtimeEnv), 0o600);
  const script = join(settings.optDir, 'prepare.sh');
  if (input.prepare === undefined) rmSync(script, { force: true });
  else writeAtomic(script, input.prepare, 0o700);
  const home = join(settings.runDir, 'home');
  safeFolder(home);
  chmodSync(home, 0o700);
  const auth = { env: input.authEnv, secretNames: input.secretNames, nonce: input.nonce };
  writeAtomic(join(settings.runDir, 'auth.json'), JSON.stringify(auth), 0o600);
  writeAtomic(marker, digest, 0o600);
  return digest;
}

/** A line with the byte count, then exactly so many bytes. Does not wait for the end of stdin: v4 exec cannot send one. */
async function readCounted(stdin: Readable): Promise<Buffer> {
  let data = Buffer.alloc(0);
  for await (const chunk of stdin) {
    data = Buffer.concat([data, chunk as Buffer]);
    const newline = data.subarray(0, 16).indexOf(10);
    if (newline < 0 && data.length < 16) continue;
    const line = data.subarray(0, Math.max(newline, 0)).toString('latin1');
    const length = Number(line);
    if (!/^\d+$/.test(line) || length > maxInput) throw new Exit(exitCodes.badInput, 'the bootstrap input has no valid length');
    if (data.length >= newline + 1 + length) return data.subarray(newline + 1, newline + 1 + length);
  }
  throw new Exit(exitCodes.badInput, 'the bootstrap input ended early; nothing was written');
}

function parse(json: Buffer): Input {
  let value: unknown;
  try {
    value = JSON.parse(json.toString('utf8'));
  } catch {
    // The parser's message quotes the input, which holds secrets.
    throw new Exit(exitCodes.badInput, 'the bootstrap input is not JSON');
  }
  const input = (value ?? {}) as Partial<Input>;
  requireEnv('runtimeEnv', input.runtimeEnv);
  requireEnv('authEnv', input.authEnv);
  if (!Array.isArray(input.secretNames) || !input.secretNames.every((name) => typeof name === 'string')) {
    throw new Exit(exitCodes.badInput, 'secretNames must be a list of names');
  }
  if (input.prepare !== undefined && typeof input.prepare !== 'string') {
    throw new Exit(exitCodes.badInput, 'prepare must be text');
  }
  if (typeof input.nonce !== 'string' || input.nonce === '') throw new Exit(exitCodes.badInput, 'nonce is missing');
  return input as Input;
}

function requireEnv(field: string, env: unknown): void {
  if (!isStringMap(env)) throw new Exit(exitCodes.badInput, `${field} must map names to texts`);
  for (const [name, value] of Object.entries(env)) {
    if (!envName.test(name)) throw new Exit(exitCodes.badInput, `${field} has a name that no shell can read`);
    if (value.includes('\0')) throw new Exit(exitCodes.badInput, `${field}.${name} holds a NUL byte`);
  }
}
