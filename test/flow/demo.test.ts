import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { root } from '../support/root.ts';

interface Line {
  readonly type: string;
  readonly [key: string]: unknown;
}

interface Demo {
  readonly child: ChildProcess;
  readonly lines: Line[];
  /** Resolves when a line of this type was printed. */
  seen(type: string): Promise<Line>;
  readonly stderr: () => string;
  readonly exit: Promise<number | string>;
}

let folder: string;
beforeEach(() => {
  // Short: unix sockets live below it.
  folder = mkdtempSync(join(tmpdir(), 'wd-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function start(...args: string[]): Demo {
  const child = spawn(process.execPath, [join(root, 'scripts/run.mjs'), 'demo', '--json', ...args], {
    cwd: root,
    env: { ...process.env, TMPDIR: folder },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: Line[] = [];
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const reader = createInterface({ input: child.stdout });
  reader.on('line', (line) => lines.push(JSON.parse(line) as Line));
  const exit = once(child, 'close').then(([code, signal]) => code ?? signal);
  const seen = async (type: string): Promise<Line> => {
    for (;;) {
      const found = lines.find((line) => line.type === type);
      if (found) return found;
      const ended = await Promise.race([once(reader, 'line').then(() => undefined), exit]);
      if (ended !== undefined) throw new Error(`the demo ended with ${ended} before a line of type ${type}:\n${stderr}`);
    }
  };
  return { child, lines, seen, stderr: () => stderr, exit };
}

/** Processes that were started with this run's temporary folder, found by their environment. */
function ours(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((name) => {
      try {
        return (
          readFileSync(`/proc/${name}/environ`, 'utf8').includes(folder) ||
          readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(folder)
        );
      } catch {
        // Ended meanwhile, or somebody else's.
        return false;
      }
    })
    .map(Number);
}

async function untilNothingIsLeft(): Promise<void> {
  const deadline = Date.now() + 40_000;
  while (readdirSync(folder).length > 0 || ours().length > 0) {
    if (Date.now() > deadline) throw new Error(`left: ${[...readdirSync(folder), ...ours()].join(', ')}`);
    await delay(50);
  }
}

describe('the demo', { timeout: 120_000 }, () => {
  test('launches, runs a command, tears down, and leaves no object, record, process or folder', async () => {
    const demo = start();
    expect(await demo.exit, demo.stderr()).toBe(0);
    expect(demo.lines.filter((line) => line.type === 'stage').map((line) => line.name)).toEqual([
      'workspace',
      'pod',
      'bootstrap',
      'connect',
      'ready',
    ]);
    for (const line of demo.lines.filter((line) => line.type === 'stage')) expect(line.durationMs).toEqual(expect.any(Number));
    expect(demo.lines.find((line) => line.type === 'output')).toMatchObject({
      text: expect.stringContaining('Hello from a Windlass instance'),
      exitCode: 0,
    });
    expect(demo.lines.at(-1)).toEqual({ type: 'done', leftovers: 0, durationMs: expect.any(Number) });
    expect(readdirSync(folder)).toEqual([]);
    expect(ours()).toEqual([]);
  });

  test('killed in the middle of a launch, it takes everything it started with it', async () => {
    const demo = start();
    await demo.seen('stage');
    demo.child.kill('SIGKILL');
    expect(await demo.exit).toBe('SIGKILL');
    await untilNothingIsLeft();
  });

  test('Ctrl-C ends it in order', async () => {
    const demo = start();
    await demo.seen('stage');
    demo.child.kill('SIGINT');
    expect(await demo.exit).toBe(130);
    expect(demo.lines.some((line) => line.type === 'done')).toBe(false);
    expect([...readdirSync(folder), ...ours()]).toEqual([]);
  });

  test('with --keep it runs on until Ctrl-C, which is then its ordinary end', async () => {
    const demo = start('--keep');
    await demo.seen('output');
    const windlass = await windlassOf(folder);
    expect(await windlass('get', 'hello')).toMatchObject({ state: 'ready' });
    demo.child.kill('SIGINT');
    expect(await demo.exit, demo.stderr()).toBe(0);
    expect(demo.lines.at(-1)).toMatchObject({ type: 'done', leftovers: 0 });
    expect([...readdirSync(folder), ...ours()]).toEqual([]);
  });
});

/** The command line on the configuration of the demo that keeps running in this folder. */
async function windlassOf(tmp: string): Promise<(...args: string[]) => Promise<unknown>> {
  const run = readdirSync(tmp).find((name) => name.startsWith('windlass-demo-'));
  return async (...args) => {
    const child = spawn(process.execPath, [
      join(root, 'dist/cli/main.js'),
      '--config',
      join(tmp, run ?? '', 'windlass.yaml'),
      '--json',
      ...args,
    ]);
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    await once(child, 'close');
    return JSON.parse(text);
  };
}
