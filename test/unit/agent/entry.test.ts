import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { agentctlBootCommand, agentctlBootFile, agentctlBootProof } from '../../../src/agent/agentctl-bootstrap.ts';
import { type AgentProgram, bootLine } from '../../../src/agent/boot.ts';
import { agentConfigMap } from '../../../src/agent/delivery.ts';
import { input, outcome, Pod, until } from './harness.ts';

const other: AgentProgram = { protocol: 'windlass', sha256: '0'.repeat(64) };
let pod: Pod;
beforeEach(async () => {
  pod = await Pod.create();
});
afterEach(() => pod.dispose());

const prepared = () => existsSync(join(pod.run, 'prepared'));

it('is not prepared while it boots again, although it was before', async () => {
  writeFileSync(join(pod.run, 'prepared'), '');
  const ended = outcome(pod.spawn(['/bin/sh', '-c', bootLine(other)[2]!]));
  expect((await ended).code).toBe(74);
  expect(prepared()).toBe(false);
});

it('waits for the start marker and serves as soon as it is there', async () => {
  const child = pod.entry();
  const ended = outcome(child);
  await expect(pod.client().health()).rejects.toMatchObject({ code: 'forward_lost' });
  expect(prepared()).toBe(false);
  await pod.bootstrap();
  await until(prepared, 'the agent');
  expect(await pod.client().health()).toMatchObject({ status: 'ok', protocol: 1 });
  child.kill('SIGTERM');
  expect(await ended).toMatchObject({ code: 0, stdout: '', stderr: '' });
});

it('ends at once on SIGTERM while it waits', async () => {
  const child = pod.entry();
  const ended = outcome(child);
  await until(() => watches(child.pid!), 'the agent to watch for the marker');
  child.kill('SIGTERM');
  expect((await ended).code).toBe(0);
});

it('does not start without what bootstrap leaves', async () => {
  writeFileSync(join(pod.run, 'start'), '');
  expect(await outcome(pod.entry())).toMatchObject({ code: 78, stderr: expect.stringContaining('was not bootstrapped') });
  writeFileSync(join(pod.opt, 'runtime.json'), '{}');
  expect(await outcome(pod.entry())).toMatchObject({ code: 78, stderr: expect.stringContaining('auth.json is missing') });
});

it('listens on loopback only', async () => {
  const open = await Pod.create({ WINDLASS_AGENT_HOST: '0.0.0.0' });
  try {
    await open.bootstrap();
    expect(await outcome(open.entry())).toMatchObject({ code: 78, stderr: expect.stringContaining('loopback') });
  } finally {
    await open.dispose();
  }
});

it('prepares once per workspace and script, and again for another script', async () => {
  const script = 'echo ran >> runs; pwd; echo $HOME $NAME';
  const child = await pod.serve({ prepare: script, runtimeEnv: { NAME: 'x' } });
  const marker = join(pod.workspace, '.windlass', 'prepared');
  expect(readFileSync(marker, 'utf8').trim()).toMatch(/^[0-9a-f]{64}$/);
  expect(readFileSync(join(pod.run, 'prepare.log'), 'utf8')).toBe(`${pod.workspace}\n${pod.run}/home x\n`);
  await stop(child);
  await stop(await pod.serve({ prepare: script, runtimeEnv: { NAME: 'y' } }));
  expect(readFileSync(join(pod.workspace, 'runs'), 'utf8')).toBe('ran\n');
  await pod.serve({ prepare: `${script} ` });
  expect(readFileSync(join(pod.workspace, 'runs'), 'utf8')).toBe('ran\nran\n');
});

it('ends with the exit code of a failed prepare, says so last, and prepares again after a restart', async () => {
  await pod.bootstrap({ prepare: 'echo working; echo trouble >&2; test -e good || exit 7' });
  const ended = await outcome(pod.entry());
  expect(ended).toMatchObject({ code: 7, stdout: 'working\ntrouble\n', stderr: 'windlass: prepare failed with exit code 7\n' });
  expect(prepared()).toBe(false);
  expect(existsSync(join(pod.workspace, '.windlass'))).toBe(false);
  writeFileSync(join(pod.workspace, 'good'), '');
  pod.entry();
  await until(prepared, 'the second prepare');
});

it('hides the secrets of the instance in what prepare prints, across chunks, and in the kept log', async () => {
  const secret = 'top/secret value';
  const encoded = Buffer.from(secret).toString('base64');
  const script = `printf top/sec; sleep 0.2; printf 'ret value\\n'; printf %s "$TOKEN" | base64; echo ${encodeURIComponent(secret)}; echo "$PLAIN"`;
  await pod.bootstrap({ prepare: script, authEnv: { TOKEN: secret, PLAIN: 'shown' }, secretNames: ['TOKEN'] });
  const child = pod.entry();
  const ended = outcome(child);
  await until(prepared, 'the agent');
  child.kill('SIGTERM');
  const { stdout } = await ended;
  for (const text of [stdout, readFileSync(join(pod.run, 'prepare.log'), 'utf8')]) {
    expect(text).toMatch(/^\*\*\*\n\*\*\*.{0,4}\n\*\*\*\nshown\n$/);
    expect(text).not.toContain(encoded.slice(0, 12));
  }
});

it('keeps the end of a long prepare log', async () => {
  await pod.serve({ prepare: 'seq 1 60000' });
  const log = readFileSync(join(pod.run, 'prepare.log'), 'utf8');
  expect(log.length).toBeLessThan(140_000);
  expect(log).toMatch(/^\[the beginning was cut\]\n/);
  expect(log.endsWith('59999\n60000\n')).toBe(true);
});

it('does not wait for what prepare leaves in the background, and ends it on SIGTERM', async () => {
  const child = await pod.serve({ prepare: 'sleep 300 & echo $! > background' });
  const pid = Number(readFileSync(join(pod.workspace, 'background'), 'utf8'));
  expect(running(pid)).toBe(true);
  await stop(child);
  await until(() => !running(pid), 'the background process to end');
});

it('ends a prepare on SIGTERM without calling it failed', async () => {
  await pod.bootstrap({ prepare: 'echo up > up; sleep 300' });
  const child = pod.entry();
  const ended = outcome(child);
  await until(() => existsSync(join(pod.workspace, 'up')), 'prepare to run');
  child.kill('SIGTERM');
  expect(await ended).toMatchObject({ code: 0, stderr: '' });
});

it('kills on SIGTERM what does not listen to it', async () => {
  const child = await pod.serve();
  const client = pod.client(await pod.client().handshake({ nonce: 'n'.repeat(64), clientKey: 'key' }));
  const command = ['sh', '-c', 'trap "" TERM; echo $$ > pid; while :; do sleep 1; done'];
  await client.ensureInstance({ id: 'one', workspace_path: '/workspace', command });
  const file = join(pod.workspace, 'pid');
  await until(() => existsSync(file) && readFileSync(file, 'utf8') !== '', 'the command');
  await stop(child);
  await until(() => !running(Number(readFileSync(file, 'utf8'))), 'the command to be killed');
});

it('boots only the agent that was asked for, and says what the image lacks', async () => {
  const { sha256 } = agentConfigMap('test');
  writeFileSync(join(pod.agentDir, 'agent.mjs'), 'console.log("other")');
  expect(await outcome(pod.spawn(bootLine({ protocol: 'windlass', sha256 })))).toMatchObject({
    code: 74,
    stdout: '',
    stderr: expect.stringContaining('not the agent'),
  });
  mkdirSync(join(pod.root, 'empty'));
  const bare = await Pod.create({ PATH: join(pod.root, 'empty') });
  try {
    expect(await outcome(bare.entry())).toMatchObject({ code: 127, stderr: 'windlass: node not found\n' });
  } finally {
    await bare.dispose();
  }
});

it('has nothing in its boot line that Kubernetes would expand', () => {
  for (const part of bootLine(other)) expect(part).not.toMatch(/\$[($]/);
});

async function stop(child: ReturnType<Pod['entry']>): Promise<void> {
  const ended = outcome(child);
  child.kill('SIGTERM');
  expect((await ended).code).toBe(0);
}

/** A killed orphan may stay a zombie where nobody reaps it: it does not run. */
function running(pid: number): boolean {
  const status = existsSync(`/proc/${pid}/status`) ? readFileSync(`/proc/${pid}/status`, 'utf8') : '';
  return /^State:\s+[^Z]/m.test(status);
}

function watches(pid: number): boolean {
  const links = readdirSync(`/proc/${pid}/fd`).map((fd) => readLink(`/proc/${pid}/fd/${fd}`));
  return links.includes('anon_inode:inotify');
}

function readLink(path: string): string {
  try {
    return readlinkSync(path);
  } catch (error) {
    // Closed since the folder was read.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return '';
  }
}

it("starts an agentctl with the caller's variables as they are, also those named as the boot line's own", async () => {
  const path = join(pod.root, 'agentctl');
  writeFileSync(path, '#!/bin/sh\nprintf "%s|%s|%s|%s" "$run" "$sum" "$marker" "$code"\n', { mode: 0o755 });
  const runtimeEnv = { run: 'mine', sum: '1', marker: '2', code: '3', PATH: '/nowhere', IFS: 'a' };
  const values = { ...input, runtimeEnv, prepare: 'echo "$run $sum $marker $code" >seen' };
  const own = await Pod.create({ WINDLASS_AGENT: path });
  const told = await own.exec(agentctlBootCommand(values), Buffer.from(agentctlBootFile(values)));
  expect(told.stdout).toContain(agentctlBootProof(values));
  const ended = await outcome(own.spawn(bootLine({ protocol: 'agentctl', path })));
  expect(ended).toMatchObject({ code: 0, stdout: 'mine|1|2|3', stderr: '' });
  expect(readFileSync(join(own.workspace, 'seen'), 'utf8')).toBe('mine 1 2 3\n');
  expect(existsSync(join(own.run, 'prepared'))).toBe(true);
  await own.dispose();
});

it('starts an agentctl in an image whose shell keeps names for itself, and tells which it could not set', async () => {
  const [path, shell] = [join(pod.root, 'agentctl'), join(pod.root, 'sh')];
  writeFileSync(path, '#!/bin/sh\nprintf "%s|%s" "$KEPT" "$AGENTCTL_BOOTSTRAP_NONCE"\n', { mode: 0o755 });
  // Called sh, bash ends at the first assignment that it refuses.
  symlinkSync('/bin/bash', shell);
  const values = {
    ...input,
    runtimeEnv: { UID: '77', KEPT: "it's" },
    authEnv: { SHELLOPTS: 'secret-value', AGENTCTL_BOOTSTRAP_NONCE: 'theirs' },
  };
  const own = await Pod.create({ WINDLASS_AGENT: path });
  await own.exec(agentctlBootCommand(values), Buffer.from(agentctlBootFile(values)));
  const [, ...rest] = bootLine({ protocol: 'agentctl', path });
  expect(await outcome(own.spawn([shell, ...rest]))).toEqual({
    code: 0,
    signal: null,
    stdout: `it's|${input.nonce}`,
    stderr: ['SHELLOPTS', 'UID'].map((name) => `windlass: ${name} belongs to the shell and was not set\n`).join(''),
  });
  await own.dispose();
});
