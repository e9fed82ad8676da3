import { spawn } from 'node:child_process';
import { root } from './paths.mjs';

const signals = ['SIGINT', 'SIGTERM'];

/**
 * Runs a program in the repository's folder until it ends. Its stdout goes to our stderr, since our own stdout may be
 * read by a machine. Resolves with the exit code; with `check` (the default) anything but 0 throws. Told to end, it tells
 * the program and waits for it: it may have to end what it started.
 */
export async function run(program, args, { check = true, env = process.env, stdin = 'ignore', stdout = 2 } = {}) {
  const child = spawn(program, args, { cwd: root, env, stdio: [stdin, stdout, 2] });
  const passOn = (signal) => child.kill(signal);
  for (const signal of signals) process.on(signal, passOn);
  const code = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (status, signal) => resolve(status ?? (signal === 'SIGINT' ? 130 : 143)));
  }).finally(() => {
    for (const signal of signals) process.off(signal, passOn);
  });
  if (check && code !== 0) throw new Failure(`\`${[program, ...args].join(' ')}\` ended with ${code}.`, 1);
  return code;
}

/** An end that is explained in one sentence, without a stack. */
export class Failure extends Error {
  constructor(message, exitCode) {
    super(message);
    this.exitCode = exitCode;
  }
}
