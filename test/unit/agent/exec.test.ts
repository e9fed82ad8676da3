import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough, Readable, Writable } from 'node:stream';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { AgentClient } from '../../../src/agent/client.ts';
import type { ExecStart } from '../../../src/agent/protocol.ts';
import { alive, Pod, sink, until } from './harness.ts';

let pod: Pod;
let client: AgentClient;

beforeAll(async () => {
  pod = await Pod.create();
  client = await pod.ready({ runtimeEnv: { FROM_RUNTIME: 'r' }, authEnv: { FROM_AUTH: 'a' } });
});
afterAll(() => pod.dispose());

async function run(start: Partial<ExecStart> & Pick<ExecStart, 'command'>, stdin?: Readable) {
  const [stdout, stderr] = [sink(), sink()];
  const exit = await client.exec({ stdin: stdin !== undefined, ...start }, { stdout, stderr, ...(stdin && { stdin }) });
  return { ...exit, stdout: stdout.text(), stderr: stderr.text() };
}

const sh = (script: string) => ['sh', '-c', script];

it.each([
  ['exit 0', 0, null],
  ['exit 3', 3, null],
  ['kill -TERM $$', 143, 'SIGTERM'],
  ['kill -KILL $$', 137, 'SIGKILL'],
])('reports the end of `%s` as %i', async (script, exitCode, signal) => {
  expect(await run({ command: sh(script) })).toMatchObject({ exitCode, signal, timedOut: false });
});

it('says 127 for a missing program, 126 for one that cannot be executed and for a missing folder', async () => {
  const missing = await run({ command: ['no-such-program'] });
  expect(missing).toMatchObject({ exitCode: 127, stderr: 'windlass: no-such-program: not found\n' });
  writeFileSync(join(pod.workspace, 'plain.txt'), 'text', { mode: 0o644 });
  expect((await run({ command: ['./plain.txt'] })).exitCode).toBe(126);
  expect(await run({ command: ['/etc/passwd/x'] })).toMatchObject({ exitCode: 127 });
  expect(await run({ command: ['true', 'x'.repeat(200_000)] })).toMatchObject({
    exitCode: 126,
    stderr: expect.stringContaining('E2BIG'),
  });
  expect(await run({ command: ['true'], workdir: 'nowhere' })).toMatchObject({
    exitCode: 126,
    stderr: expect.stringContaining('nowhere: no such directory'),
  });
});

it('keeps the two outputs apart and delivers all of both before the exit', async () => {
  const { stdout, stderr } = await run({ command: sh('seq 1 20000; seq 1 20000 >&2; exit 5') });
  expect(stdout.split('\n')).toHaveLength(20001);
  expect(stderr.split('\n')).toHaveLength(20001);
});

it('gives the command real pipes: /dev/stdin, /dev/stdout and /dev/stderr can be opened', async () => {
  const result = await run({ command: sh('cat /dev/stdin >/dev/stderr && echo out >/dev/stdout') }, Readable.from(['in']));
  expect(result).toMatchObject({ exitCode: 0, stdout: 'out\n', stderr: 'in' });
});

it('runs in the workspace with HOME, the instance environment and that of the exec, and without the secrets of the agent', async () => {
  const { stdout } = await run({ command: ['env'], env: { OWN: 'a b$(c)\n"d"' } });
  expect(stdout).toContain(`HOME=${pod.run}/home\n`);
  expect(stdout).toContain('FROM_RUNTIME=r\n');
  expect(stdout).toContain('FROM_AUTH=a\n');
  expect(stdout).toContain('OWN=a b$(c)\n"d"\n');
  expect(stdout).not.toMatch(/WINDLASS_AGENT_(NONCE|HOST|PORT)/);
  expect(stdout).not.toContain('n'.repeat(64));
  expect((await run({ command: ['pwd'] })).stdout).toBe(`${pod.workspace}\n`);
  expect((await run({ command: ['pwd'], workdir: '/workspace' })).stdout).toBe(`${pod.workspace}\n`);
  expect((await run({ command: ['pwd'], workdir: '/' })).stdout).toBe('/\n');
});

it('passes 20 MB from stdin to stdout unchanged, with flat memory in the agent', async () => {
  const piece = randomBytes(1 << 20);
  const pidOfAgent = Number((await run({ command: sh('echo $PPID') })).stdout);
  const rss = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pidOfAgent}/status`, 'utf8'))![1]) / 1024;
  const before = rss();
  let [received, peak] = [0, before];
  const stdout = new Writable({
    write(chunk: Buffer, _encoding, done) {
      for (let at = 0; at < chunk.length; ) {
        const offset = (received + at) % piece.length;
        const length = Math.min(chunk.length - at, piece.length - offset);
        if (!chunk.subarray(at, at + length).equals(piece.subarray(offset, offset + length))) return done(new Error('changed'));
        at += length;
      }
      received += chunk.length;
      peak = Math.max(peak, rss());
      done();
    },
  });
  const stdin = Readable.from(Array.from({ length: 20 }, () => piece));
  const exit = await client.exec({ command: ['cat'], stdin: true }, { stdin, stdout, stderr: sink() });
  expect(exit.exitCode).toBe(0);
  expect(received).toBe(20 * piece.length);
  expect(peak - before).toBeLessThan(64);
});

it('holds the command back while the client does not take its output', async () => {
  const counter = join(pod.workspace, 'written');
  let release = () => {};
  const first = new Promise<void>((resolve) => {
    release = resolve;
  });
  let size = 0;
  const stdout = new Writable({
    write(chunk: Buffer, _encoding, done) {
      size += chunk.length;
      void first.then(() => done());
    },
  });
  const command = sh(`for i in $(seq 1 300); do head -c 100000 /dev/zero; echo $i > ${counter}; done`);
  const exit = client.exec({ command, stdin: false }, { stdout, stderr: sink() });
  let [last, same] = ['', 0];
  await until(() => {
    const now = readIfThere(counter);
    same = now !== '' && now === last ? same + 1 : 0;
    last = now;
    return same > 10;
  }, 'the command to stand still');
  expect(Number(last)).toBeLessThan(250);
  release();
  expect((await exit).exitCode).toBe(0);
  expect(size).toBe(30_000_000);
});

it('ends the stdin of the command when that of the client ends, and gives it none when it was not asked for', async () => {
  expect((await run({ command: ['wc', '-c'] }, Readable.from(['12345']))).stdout.trim()).toBe('5');
  expect((await run({ command: ['wc', '-c'] })).stdout.trim()).toBe('0');
});

it('lets a command end that leaves its stdin unread', async () => {
  const endless = new Readable({
    read() {
      this.push(Buffer.alloc(65536));
    },
  });
  expect(await run({ command: sh('head -c 10 >/dev/null; exit 4') }, endless)).toMatchObject({ exitCode: 4 });
});

it('does not wait for what the command left in the background', async () => {
  const { exitCode, stdout } = await run({ command: sh('sleep 60 & echo $!') });
  expect(exitCode).toBe(0);
  expect(alive(Number(stdout))).toBe(true);
  process.kill(Number(stdout), 'SIGKILL');
});

it('ends a command at its timeout with 124', async () => {
  expect(await run({ command: ['sleep', '60'], timeoutMs: 200 })).toMatchObject({
    exitCode: 124,
    timedOut: true,
    signal: 'SIGTERM',
  });
});

it('delivers signals to the process group', async () => {
  const stdout = new PassThrough();
  let send = (_signal: NodeJS.Signals) => {};
  const exit = client.exec(
    { command: sh('trap "exit 9" INT; echo up; while :; do sleep 0.05; done'), stdin: false },
    {
      stdout,
      stderr: sink(),
      onReady: (sender) => {
        send = sender;
      },
    },
  );
  await new Promise((resolve) => stdout.once('data', resolve));
  send('SIGINT');
  expect(await exit).toMatchObject({ exitCode: 9 });
});

it.each(['the command reads its stdin', 'the command leaves its stdin unread'])(
  'kills the whole process group when the client goes away while %s',
  async (how) => {
    const stdout = new PassThrough();
    const stop = new AbortController();
    const stdin = new Readable({
      read() {
        this.push(Buffer.alloc(65536));
      },
    });
    const reads = how.includes('unread') ? 'sleep 300' : 'cat >/dev/null';
    const exit = client.exec(
      { command: sh(`sleep 300 & echo $! $$; ${reads}`), stdin: true },
      { stdin, stdout, stderr: sink(), signal: stop.signal },
    );
    const [line] = await new Promise<[Buffer]>((resolve) => stdout.once('data', (chunk) => resolve([chunk])));
    const pids = line.toString().trim().split(' ').map(Number);
    expect(pids.map(alive)).toEqual([true, true]);
    stop.abort(new Error('enough'));
    await expect(exit).rejects.toThrow('enough');
    await until(() => pids.every((pid) => !running(pid)), 'the processes to end');
  },
);

it('refuses a start frame that it does not understand with 125', async () => {
  expect(await run({ command: [] })).toMatchObject({ exitCode: 125, stderr: expect.stringContaining('command must be') });
});

/** A killed orphan may stay a zombie where nobody reaps it: it does not run. */
function running(pid: number): boolean {
  return alive(pid) && !/^State:\s+Z/m.test(readIfThere(`/proc/${pid}/status`));
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT' || (error as NodeJS.ErrnoException).code === 'ESRCH') return '';
    throw error;
  }
}
