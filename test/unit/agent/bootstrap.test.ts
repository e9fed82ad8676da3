import { lstatSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { bootstrapCommand } from '../../../src/agent/boot.ts';
import { bootstrapInput, bootstrapProof } from '../../../src/agent/delivery.ts';
import { input, Pod, sink } from './harness.ts';

let pod: Pod;
beforeEach(async () => {
  pod = await Pod.create();
});
afterEach(() => pod.dispose());

const mode = (path: string) => statSync(path).mode & 0o777;
const tricky = { A: '$(VAR) ${B} `id` "double" \'single\'', B: 'line\nline\ttab\\', C: 'wörld 🌍', EMPTY: '', _x9: '=' };

it('writes the files with their modes, the marker, and proves it on stdout although stdin stays open', async () => {
  const values = {
    ...input,
    runtimeEnv: { ONE: '1' },
    authEnv: { TOKEN: 'secret' },
    secretNames: ['TOKEN'],
    prepare: 'echo hi\n',
  };
  const ended = await pod.exec(bootstrapCommand(), bootstrapInput(values), { keepStdinOpen: true });
  expect(ended).toMatchObject({ code: 0, stdout: `windlass: bootstrapped ${bootstrapProof(values)}\n`, stderr: '' });
  expect(mode(join(pod.opt, 'runtime.json'))).toBe(0o600);
  expect(mode(join(pod.opt, 'prepare.sh'))).toBe(0o700);
  expect(mode(join(pod.run, 'auth.json'))).toBe(0o600);
  expect(mode(join(pod.run, 'start'))).toBe(0o600);
  expect(mode(join(pod.run, 'home'))).toBe(0o700);
  expect(readFileSync(join(pod.opt, 'runtime.json'), 'utf8')).not.toContain('secret');
  expect(readFileSync(join(pod.opt, 'prepare.sh'), 'utf8')).toBe('echo hi\n');
});

it('brings every value to the command with the same bytes (C60)', async () => {
  const client = await pod.ready({ runtimeEnv: tricky, authEnv: { D: `${tricky.A}\n` } });
  const stdout = sink();
  const script = 'process.stdout.write(JSON.stringify(process.env))';
  await client.exec({ command: ['node', '-e', script], stdin: false }, { stdout, stderr: sink() });
  expect(JSON.parse(stdout.text())).toMatchObject({ ...tricky, D: `${tricky.A}\n` });
});

it('is idempotent, and replaces everything when the input is another', async () => {
  await pod.bootstrap({ prepare: 'echo one', authEnv: { A: '1' } });
  const before = lstatSync(join(pod.run, 'auth.json')).ino;
  await pod.bootstrap({ prepare: 'echo one', authEnv: { A: '1' } });
  expect(lstatSync(join(pod.run, 'auth.json')).ino).toBe(before);
  await pod.bootstrap({ authEnv: { A: '2' } });
  expect(readFileSync(join(pod.run, 'auth.json'), 'utf8')).toContain('"A":"2"');
  expect(readdirSync(pod.opt)).toEqual(['runtime.json']);
  expect(readdirSync(pod.run).sort()).toEqual(['auth.json', 'home', 'start']);
});

it('writes nothing and proves nothing when the input is cut off, at whatever byte (C58)', async () => {
  const whole = bootstrapInput({ ...input, authEnv: { A: 'x'.repeat(50) } });
  for (const length of [0, 2, 4, 20, whole.length - 1]) {
    const ended = await pod.exec(bootstrapCommand(), whole.subarray(0, length));
    expect(ended).toMatchObject({ code: 65, stdout: '' });
    expect([...readdirSync(pod.run), ...readdirSync(pod.opt)]).toEqual([]);
  }
});

it.each([
  ['a symlinked folder', (path: string, away: string) => symlinkSync(away, path), 'is a symbolic link'],
  ['a file in the place of the folder', (path: string) => writeFileSync(path, ''), 'is not a directory'],
])('refuses %s with exit 73 and follows it nowhere', async (_what, obstruct, message) => {
  const away = join(pod.root, 'away');
  renameSync(pod.run, away);
  obstruct(pod.run, away);
  const ended = await pod.exec(bootstrapCommand(), bootstrapInput(input));
  expect(ended).toMatchObject({ code: 73, stdout: '', stderr: expect.stringContaining(message) });
  expect(readdirSync(away)).toEqual([]);
});

it('refuses a symlink higher up', async () => {
  const real = join(pod.root, 'real');
  mkdirSync(join(real, 'run'), { recursive: true });
  symlinkSync(real, join(pod.root, 'link'));
  const through = await Pod.create({ WINDLASS_RUN_DIR: join(pod.root, 'link', 'run') });
  try {
    expect(await through.exec(bootstrapCommand(), bootstrapInput(input))).toMatchObject({ code: 73 });
    expect(readdirSync(join(real, 'run'))).toEqual([]);
  } finally {
    await through.dispose();
  }
});

it.each([
  ['no length', Buffer.from('hello world, this is no number\n{}')],
  ['too much', Buffer.from('99999999\n{}')],
  ['no JSON', Buffer.from('7\nsecret!')],
  ['a name no shell can read', bootstrapInput({ ...input, authEnv: { 'A B': 'secret!' } })],
  ['a NUL byte', bootstrapInput({ ...input, authEnv: { A: 'secret!\0' } })],
  ['no nonce', bootstrapInput({ ...input, nonce: '' })],
])('refuses input with %s and does not repeat it', async (_what, bytes) => {
  const ended = await pod.exec(bootstrapCommand(), bytes);
  expect(ended).toMatchObject({ code: 65, stdout: '' });
  expect(ended.stderr).toMatch(/^windlass: .+\n$/);
  expect(ended.stderr).not.toContain('secret!');
  expect(readdirSync(pod.run)).toEqual([]);
});
