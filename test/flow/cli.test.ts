import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { createWorld, type World } from '../support/world.ts';
import { inProcess, start, windlass } from '../unit/cli/run.ts';

let embedded: EmbeddedCluster;
let world: World;
const run = (...args: string[]) => inProcess(['--json', '--config', world.loaded.file, ...args]);
const id = 'cli / %é \u{1f600}';

beforeAll(async () => {
  embedded = await startCluster();
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24' });
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
});

describe('the command line on a running instance', () => {
  it('launch --wait shows each stage on stderr and the instance on stdout', async () => {
    const launched = await run(
      'launch',
      '--set',
      'profile=node',
      '--set',
      `instanceId=${JSON.stringify(id)}`,
      '--wait',
      '--timeout',
      '60',
    );
    expect(launched.json()).toMatchObject({ schema: 'windlass/v1', instanceId: id, state: 'ready', failure: null });
    expect(launched.exitCode).toBe(0);
    for (const stage of ['workspace', 'pod', 'bootstrap', 'connect', 'ready'])
      expect(launched.stderr).toMatch(new RegExp(`${stage} done in \\d`));
  });

  it('wait for what nobody is at says so when the time is up, and tells no history', async () => {
    const waited = await run('wait', '--for', 'gone', '--timeout', '1', '--', id);
    expect(waited.json().error).toMatchObject({
      code: 'wait_timeout',
      message: expect.stringMatching(/ is still ready after 1 s\.$/),
    });
    expect(waited).toMatchObject({ exitCode: 4, stderr: '' });
  });

  it('exec gives the command its streams, environment and folder, and gives back its exit code', async () => {
    const told = await run(
      'exec',
      '--env',
      'A=x y"$',
      '--workdir',
      '/tmp',
      '--',
      id,
      '--',
      'sh',
      '-c',
      'echo "$A"; pwd; echo err >&2; exit 7',
    );
    expect(told.exitCode).toBe(7);
    const lines = told.lines() as { schema: string; stream?: string; data?: string; exitCode?: number }[];
    const text = (stream: string) =>
      lines
        .filter((line) => line.stream === stream)
        .map((line) => line.data)
        .join('');
    expect(text('stdout')).toBe('x y"$\n/tmp\n');
    expect(text('stderr')).toBe('err\n');
    expect(lines.at(-1)).toEqual({ schema: 'windlass/v1', exitCode: 7 });
    expect((await run('exec', id, '--', 'surely-not-a-command')).exitCode).toBe(127);
    const late = await run('exec', '--timeout', '1', id, '--', 'sleep', '30');
    expect(late).toMatchObject({ exitCode: 124, stderr: 'The command was ended after 1 s (--timeout).\n' });
    expect(await run('exec', '--timeout', '9', id, '--', 'sh', '-c', 'exit 124')).toMatchObject({ exitCode: 124, stderr: '' });
  });

  it('exec -i passes stdin on byte by byte, and stdout stays clean', async () => {
    const child = start(['exec', '-i', '--config', world.loaded.file, '--', id, 'cat'], {});
    const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, index) => (index * 7) % 256));
    child.stdin?.end(bytes);
    const chunks: Buffer[] = [];
    for await (const chunk of child.stdout!) chunks.push(chunk as Buffer);
    expect(Buffer.concat(chunks).equals(bytes)).toBe(true);
  });

  it('exec -t goes through the cluster', async () => {
    const told = await run('exec', '-t', '--env', 'B=1 2', '--workdir', '/tmp', id, '--', 'sh', '-c', 'echo "$B"; pwd; exit 3');
    expect(told.exitCode).toBe(3);
    expect(told.stdout).toMatch(/1 2.*\/tmp/s);
  });

  it.each([[[]], [['-t']]])('C51 exec of a missing command ends with 127 and says so (%j)', async (options) => {
    const missing = await inProcess(['--config', world.loaded.file, 'exec', ...options, id, '--', 'no-such-command']);
    const text = `${missing.stdout}${missing.stderr}`;
    expect([missing.exitCode, text]).toEqual([127, expect.stringMatching(/no-such-command"?: .*not found/)]);
  });

  it('exec on what is not there ends with 125, which is no exit code of a command', async () => {
    const missing = await run('exec', 'nobody', '--', 'true');
    expect(missing.json().error?.code).toBe('instance_not_found');
    expect(missing.exitCode).toBe(125);
    expect((await run('exec', id)).exitCode).toBe(125);
  });

  it('explain tells record, stages, lease, objects and jobs', async () => {
    const told = (await run('explain', '--', id)).json();
    const record = await world.operator.inventory.read(id);
    expect(told).toMatchObject({
      instance: {
        instanceId: id,
        state: 'ready',
        stages: expect.arrayContaining([expect.objectContaining({ name: 'pod', state: 'done' })]),
      },
      lease: { holder: null, fence: record?.fence },
      jobs: [{ queue: 'launch', state: 'completed' }],
      objects: {
        pod: { uid: record?.pod?.uid, phase: 'Running', containers: [{ name: 'agent', ready: true }] },
        claim: { uid: record?.workspace?.claimUid },
      },
    });
    expect((told.recent as { type: string }[]).at(-1)?.type).toBe('ready');
  });

  it('connect stays until it is told to stop, and its address and token reach the agent', async () => {
    const child = start(['connect', '--json', '--config', world.loaded.file, '--', id]);
    let stdout = '';
    const answer = new Promise<{ url: string; token: string }>((resolve) =>
      child.stdout?.on('data', (chunk) => {
        stdout += chunk;
        if (stdout.endsWith('}\n')) resolve(JSON.parse(stdout));
      }),
    );
    const { url, token } = await answer;
    const list = await fetch(`${url}/api/v1/instances`, { headers: { authorization: `Bearer ${token}` } });
    expect(await list.json()).toMatchObject([{ id, workspace_path: expect.any(String) }]);
    const ended = new Promise((resolve) => child.once('close', resolve));
    child.kill('SIGINT');
    expect(await ended).toBe(0);
    await expect(fetch(`${url}/health`)).rejects.toThrow();
  });

  it('logs print what the container wrote', async () => {
    const told = await run('logs', '--tail', '100', '--', id);
    expect(told.exitCode).toBe(0);
    const wrong = await run('logs', '--container', 'nobody', '--', id);
    expect(wrong.json().error).toMatchObject({
      code: 'payload_invalid',
      issues: [{ path: '--container', message: 'must be one of agent, not "nobody"' }],
    });
    expect(wrong.exitCode).toBe(2);
  });

  it('local-cluster leaves the kubeconfig of a running one alone, and every file that is not of a local cluster', async () => {
    const before = await readFile(embedded.kubeconfig, 'utf8');
    const second = await run('local-cluster', '--kubeconfig', embedded.kubeconfig);
    expect(second.json().error?.issues).toEqual([{ path: '--kubeconfig', message: expect.stringContaining('is running') }]);
    expect(second.exitCode).toBe(2);
    expect(await readFile(embedded.kubeconfig, 'utf8')).toBe(before);

    const foreign = await run('local-cluster', '--kubeconfig', world.loaded.file);
    expect(foreign.json().error?.issues).toEqual([{ path: '--kubeconfig', message: expect.stringContaining('another file') }]);
    expect(await readFile(world.loaded.file, 'utf8')).not.toContain('windlass-local\ncurrent');
    expect(foreign.exitCode).toBe(2);
  });

  it('local-cluster says which option is wrong when its port is taken or nothing can be written, and leaves nothing behind', async () => {
    const port = new URL(embedded.url).port;
    const cwd = await mkdtemp(join(tmpdir(), 'windlass-taken-'));
    try {
      const file = join(cwd, 'file');
      await writeFile(file, '');
      const start = (args: string[]) =>
        windlass(['--json', 'local-cluster', '--kubeconfig', join(cwd, 'kube/config'), ...args], {
          cwd,
          env: { TMPDIR: cwd },
        });
      const wrong = [
        [await start(['--port', port]), '--port', `${port} is in use on 127.0.0.1`],
        [await start(['--kubeconfig', join(file, 'kube/config')]), '--kubeconfig', 'nothing can be written into'],
        [await start(['--audit-log', join(file, 'audit.log')]), '--audit-log', 'nothing can be written into'],
      ] as const;
      for (const [{ exitCode, ...finished }, path, message] of wrong) {
        expect(finished.json().error?.issues).toEqual([{ path, message: expect.stringContaining(message) }]);
        expect(exitCode).toBe(2);
      }
      expect((await readdir(cwd)).filter((name) => name.startsWith('windlass'))).toEqual([]);
      expect(await readdir(join(cwd, 'kube'))).toEqual([]);
    } finally {
      await rm(cwd, { recursive: true });
    }
  });

  it('init beside a running local cluster takes it and does not tell people to start it', async () => {
    const cwd = await mkdtemp(join(tmpdir(), 'windlass-init-'));
    try {
      await mkdir(join(cwd, '.windlass/local-cluster'), { recursive: true });
      await copyFile(embedded.kubeconfig, join(cwd, '.windlass/local-cluster/kubeconfig'));
      const made = await windlass(['init'], { cwd, env: { HOME: cwd } });
      expect(made.json()).toMatchObject({ context: 'windlass-local', namespace: 'default' });
      expect(made.stderr).toContain('windlass doctor');
      expect(made.stderr).not.toContain('windlass local-cluster');
    } finally {
      await rm(cwd, { recursive: true });
    }
  });

  it('events -f follows an instance to its end; teardown --wait and wait --for gone see it too', async () => {
    const following = windlass(['events', '-f', '--config', world.loaded.file, '--', id]);
    const removed = await run('teardown', '--wait', '--reason', 'test', '--', id);
    expect(removed.json()).toMatchObject({ instanceId: id, state: 'gone', deduplicated: false });
    const feed = (await following).lines() as { seq: number; type: string }[];
    expect(feed.map((event) => event.seq)).toEqual(feed.map((_, index) => index + 1));
    expect(feed.at(-1)?.type).toBe('gone');
    expect((await run('wait', '--for', 'gone', '--', id)).exitCode).toBe(0);
    const again = await run('get', '--', id);
    expect(again.json().error?.code).toBe('instance_gone');
    expect(again.exitCode).toBe(3);
    expect(await world.leftovers()).toEqual([]);
  });

  it('launch --wait of a failing launch ends with 1, the failure and the instance', async () => {
    const failed = await run(
      'launch',
      '--set',
      'profile=node',
      '--set',
      'instanceId=failing',
      '--set',
      'prepare=echo no such tool; exit 9',
      '--wait',
      '--timeout',
      '60',
    );
    expect(failed.json()).toMatchObject({
      error: { code: 'prepare_failed', retriable: false },
      instance: { instanceId: 'failing', state: 'failed' },
    });
    expect(failed.exitCode).toBe(1);
    expect((await run('wait', 'failing', '--for', 'ready')).exitCode).toBe(1);
    expect((await run('explain', 'failing')).json().evidence).not.toBeNull();
    const forPeople = (...args: string[]) => inProcess(['--config', world.loaded.file, ...args]);
    const quiet = await forPeople('-q', 'wait', 'failing', '--for', 'ready');
    const log = '  | no such tool\n  | windlass: prepare failed with exit code 9\n';
    expect(quiet.stderr).toBe(`windlass: The prepare step failed with exit code 9.\n${log}`);
    const told = await forPeople('wait', 'failing', '--for', 'ready');
    expect(told.stderr).toBe(`${quiet.stderr}Hint: \`windlass explain\` shows its exit code and output.\n`);
    expect((await forPeople('-o', 'wide', 'explain', 'failing')).stdout).toMatch(/^ {2}\| no such tool$/m);
  });

  it('sweep --wait brings the reports', async () => {
    const swept = await run('sweep', 'orphans', '--dry-run', '--wait', '--timeout', '30');
    expect(swept.json()).toMatchObject({
      schema: 'windlass/v1',
      reports: [{ sweep: 'orphans', cluster: 'default', dryRun: true, deleted: 0 }],
    });
    expect(swept.exitCode).toBe(0);
  });
});
