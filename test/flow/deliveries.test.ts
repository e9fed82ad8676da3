import { chmod, copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { loadAgentBundle } from '../../src/agent/delivery.ts';
import type { StageRecord } from '../../src/inventory/types.ts';
import { agentctlFile } from '../support/agentctl/build.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { recordEffects, resumeSteps } from '../support/resume-steps.ts';
import { createWorld, type World } from '../support/world.ts';

let dir: string;
let embedded: EmbeddedCluster;
let world: World;
let steps: ReturnType<typeof resumeSteps>;

/** In path mode a container sees the machine's files: a path "in the image" is one of the machine. */
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-deliveries-'));
  await chmod(dir, 0o755);
  const [ours, agentctl, broken] = [join(dir, 'agent.mjs'), join(dir, 'agentctl'), join(dir, 'faults.json')];
  await writeFile(ours, loadAgentBundle().text);
  await writeFile(agentctl, await agentctlFile(process.execPath), { mode: 0o755 });
  await writeFile(broken, JSON.stringify({ rules: [] }));
  // An image that brings its own entries in PATH, as one with an agentctl to copy from does.
  const image = join(dir, 'image');
  await mkdir(join(image, 'bin'), { recursive: true });
  await copyFile(agentctl, join(image, 'bin', 'agentctl'));
  embedded = await startCluster({ faults: broken, sandbox: 'none', images: { 'agentctl:1': image } });
  const profile = { podTemplateFile: 'profiles/node.yaml', workspace: { mode: 'empty_dir' } };
  const claim = { ...profile, workspace: { mode: 'managed_pvc', size: '64Mi' } };
  const uploads = (path: string) => ({ delivery: 'upload', binaries: { 'linux/amd64': path } });
  const profiles = {
    config_map: profile,
    init_image: { ...profile, agent: { delivery: 'init_image', image: 'node:24' } },
    upload: { ...profile, agent: uploads(ours) },
    image: { ...profile, agent: { delivery: 'image', path: ours } },
    missing: { ...profile, agent: { delivery: 'image', path: '/opt/nothing-here' } },
    agentctl: { ...claim, agent: { ...uploads(agentctl), protocol: 'agentctl' } },
    agentctl_init: { ...profile, agent: { delivery: 'init_image', image: 'agentctl:1', protocol: 'agentctl' } },
    agentctl_image: { ...profile, agent: { delivery: 'image', path: agentctl, protocol: 'agentctl' } },
  };
  const named = Object.fromEntries(Object.entries(profiles).map(([name, value]) => [name.replaceAll('_', '-'), value]));
  const config = { installation: 'deliveries', profiles: named };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  steps = resumeSteps(world);
  await world.worker();
});
afterAll(async () => {
  await world.stop();
  await embedded.close();
  await rm(dir, { recursive: true, force: true });
});
beforeEach(() => rules([]));

const rules = (list: readonly object[]) => writeFile(join(dir, 'faults.json'), JSON.stringify({ rules: list }));
const onExec = (nth: number, fault: unknown) => ({ verb: 'create', resource: 'pods', subresource: 'exec', nth, fault });
const podOf = async (id: string) => {
  const record = await world.operator.inventory.read(id);
  const pod = await world.cluster.read('pods', record?.pod?.name ?? '');
  return { record, pod, main: pod?.spec?.containers.find(({ name }) => name === 'agent') };
};
const shell = async (id: string, script: string) => {
  const { record } = await podOf(id);
  const target = { pod: record?.pod?.name ?? '', container: 'agent' };
  return world.cluster.exec(target, ['/bin/sh', '-c', script]);
};
const bootstrapped = (stages: readonly StageRecord[] = []) =>
  stages.some(({ name, checkpoint }) => name === 'bootstrap' && checkpoint === 'bootstrapped');
const printsEnv = { env: { PLAIN: "it's $(plain) `value`" }, secretEnv: { SECRET: 'kept "secret"' } };

describe.each(['config-map', 'init-image', 'upload', 'image'])('delivery %s', (profile) => {
  it('brings an agent that takes its environment, prepares and runs commands', async () => {
    await steps.launch(profile, { profile, ...printsEnv, prepare: 'echo ready > prepared' });
    const output = await world.exec(profile, ['/bin/sh', '-c', 'printf "%s|%s|" "$PLAIN" "$SECRET"; cat prepared']);
    expect(output).toMatchObject({ exitCode: 0, stdout: `${printsEnv.env.PLAIN}|${printsEnv.secretEnv.SECRET}|ready\n` });
    const { pod } = await podOf(profile);
    const maps = pod?.spec?.volumes?.flatMap(({ configMap }) => (configMap ? [configMap.name] : [])) ?? [];
    expect(maps).toHaveLength(profile === 'config-map' || profile === 'init-image' ? 1 : 0);
  });

  it('is still there after its container was started anew', async () => {
    await steps.killAgent(profile);
    await steps.restarted(profile);
    expect((await world.exec(profile, ['echo', 'again'])).stdout).toBe('again\n');
    await world.operator.producer.teardown({ version: 1, instanceId: profile });
    await world.gone(profile);
  });
});

describe('delivery upload', () => {
  it('writes the file whole and executable, leaves no part of it, and sends it again only where it is not', async () => {
    await steps.launch('whole', { profile: 'upload' });
    const listing = 'ls -l "$WINDLASS_OPT_DIR" | grep agent; sha256sum <"$WINDLASS_AGENT"';
    const before = (await shell('whole', listing)).stdout;
    expect(before.split('\n').filter((line) => line.includes('agent'))).toEqual([
      expect.stringMatching(/^-rwxr-xr-x.* agent\.mjs$/),
    ]);
    expect(before).toContain(loadAgentBundle().sha256);
    await steps.killAgent('whole', true);
    await steps.restarted('whole');
    // Written by rename: the same inode says that nothing was sent.
    const inode = 'ls -i "$WINDLASS_AGENT"';
    const first = (await shell('whole', inode)).stdout;
    await steps.reconnected('whole');
    expect((await shell('whole', inode)).stdout).toBe(first);
    expect((await world.exec('whole', ['echo', 'hi'])).stdout).toBe('hi\n');
  });

  it.each([
    ['breaks off before its end is known (C57)', 'exec_no_status'],
    ['is dropped in the middle', { exec_drop_after: 1 }],
  ])('is tried again by itself when the exec %s', async (_what, fault) => {
    const id = `again-${typeof fault === 'string' ? 'status' : 'drop'}`;
    await rules([onExec(1, fault)]);
    await steps.launch(id, { profile: 'upload' });
    expect((await world.exec(id, ['echo', 'hi'])).stdout).toBe('hi\n');
  });

  it('works with servers whose execs cannot end stdin', async () => {
    await rules([{ verb: 'create', resource: 'pods', subresource: 'exec', fault: 'exec_v4_only' }]);
    await steps.launch('v4', { profile: 'upload' });
    expect((await world.exec('v4', ['echo', 'hi'])).stdout).toBe('hi\n');
  });
});

describe('delivery image', () => {
  it('says what the image lacks', async () => {
    await world.operator.producer.launch({ version: 1, instanceId: 'lacks', profile: 'missing' });
    const ended = await world.until('lacks', (record) => record?.state === 'failed');
    expect(ended?.failure).toMatchObject({ code: 'agent_runtime_missing' });
    expect(ended?.failure?.message).toContain('/opt/nothing-here');
  });
});

describe.each(['agentctl', 'agentctl-init', 'agentctl-image'])('protocol agentctl, profile %s', (profile) => {
  it('is bootstrapped, shaken hands with and holds the instance at a port of its own', async () => {
    const record = await steps.launch(profile, { profile, ...printsEnv, prepare: 'echo ready >> prepared' });
    expect(record.agent).toMatchObject({ id: record.hash, protocol: 'agentctl', transport: 'port_forward', state: 'healthy' });
    expect(record.agent?.port).toBeGreaterThanOrEqual(41_001);
    const access = await world.operator.connectAgent(profile);
    expect(await (await fetch(`${access.url}/health`)).json()).toMatchObject({ status: 'ok' });
    await access.close();
    const seen =
      '. "$WINDLASS_RUN_DIR/boot.sh"; windlass_env; printf "%s|%s|" "$PLAIN" "$SECRET"; cat "$WINDLASS_WORKSPACE/prepared"';
    expect((await shell(profile, seen)).stdout).toBe(`${printsEnv.env.PLAIN}|${printsEnv.secretEnv.SECRET}|ready\n`);
  });
});

describe('protocol agentctl', () => {
  it('a lost handshake costs one restart of the agent, and is no loss of the instance', async () => {
    // The worker's first way to the agent takes so long that somebody else is there first: the nonce is burnt by then.
    await rules([{ verb: 'create', resource: 'pods', subresource: 'portforward', nth: 1, fault: { delayMs: 3000 } }]);
    const effects = recordEffects();
    const launched = steps.launch('burnt', { profile: 'agentctl' });
    await world.until('burnt', (record) => bootstrapped(record?.stages));
    const burn = `. "$WINDLASS_RUN_DIR/boot.sh"; windlass_agentctl; node -e '
      const url = "http://" + process.env.AGENTCTL_LISTEN_HOST + ":8765/auth/handshake";
      const body = JSON.stringify({ nonce: process.env.AGENTCTL_BOOTSTRAP_NONCE });
      const ask = () => fetch(url, { method: "POST", body }).then(({ status }) => console.log(status), () => setTimeout(ask, 5));
      ask();'`;
    expect((await shell('burnt', burn)).stdout).toBe('200\n');
    const record = await launched;
    expect(effects.stop().filter((name) => name === 'agent.handshake')).toHaveLength(2);
    expect(record).toMatchObject({ restartCount: 1, run: 1, agent: { state: 'healthy' } });
    const events = await world.operator.inventory.events('burnt', 0, 500);
    expect(events.filter(({ type }) => ['lost', 'rolling_back', 'retrying'].includes(type))).toEqual([]);
    const access = await world.operator.connectAgent('burnt');
    await access.close();
  });

  it('a restarted container has another token, which a reconnect fetches in the same Pod, and prepares no second time', async () => {
    const before = await podOf('agentctl');
    await shell('agentctl', 'read -r pid <"$WINDLASS_RUN_DIR/agent.pid" && kill -9 "$pid"').catch(() => undefined);
    await steps.restarted('agentctl');
    await expect(world.operator.connectAgent('agentctl')).rejects.toMatchObject({ hint: expect.stringContaining('reconnect') });
    const after = await steps.reconnected('agentctl');
    expect(after).toMatchObject({ agent: { state: 'healthy' }, rebuilds: 0, restartCount: 1 });
    expect(after.pod?.uid).toBe(before.record?.pod?.uid);
    expect((await shell('agentctl', 'cat "$WINDLASS_WORKSPACE/prepared"')).stdout).toBe('ready\n');
  });

  it('a lost Pod is built again with its agent and its claim', async () => {
    const record = await world.operator.inventory.read('agentctl');
    if (!record) throw new Error('the instance is gone');
    await steps.deletePod(record);
    await steps.lost('agentctl');
    await world.operator.producer.reconnect('agentctl');
    const after = await world.until('agentctl', (current) => current?.state === 'ready' && current.rebuilds === 1);
    expect(after?.agent).toMatchObject({ protocol: 'agentctl', state: 'healthy' });
    expect((await shell('agentctl', 'cat "$WINDLASS_WORKSPACE/prepared"')).stdout).toBe('ready\n');
  });

  it("boots whatever the caller's variables are called: they are for the caller's programs", async () => {
    const env = { PATH: '/nowhere', IFS: 'e', run: '/nowhere', ENV: '/nowhere', UID: '77', HOMES: '/h' };
    const prepare = 'echo "$PATH|$run|$HOMES|${AGENTCTL_BOOTSTRAP_NONCE:-no nonce}" >seen';
    await steps.launch('odd-env', { profile: 'agentctl', env, prepare });
    expect((await shell('odd-env', 'cat "$WINDLASS_WORKSPACE/seen"')).stdout).toBe('/nowhere|/nowhere|/h|no nonce\n');
    const told =
      'read -r pid <"$WINDLASS_RUN_DIR/agent.pid"; tr "\\0" "\\n" <"/proc/$pid/environ" | grep -E "^(PATH|run|AGENTCTL_PORT)="';
    expect((await shell('odd-env', told)).stdout.split('\n').sort()).toEqual([
      '',
      'AGENTCTL_PORT=8765',
      'PATH=/nowhere',
      'run=/nowhere',
    ]);
    await shell('odd-env', 'read -r pid <"$WINDLASS_RUN_DIR/agent.pid" && kill -9 "$pid"').catch(() => undefined);
    await steps.restarted('odd-env');
    expect((await steps.reconnected('odd-env')).agent).toMatchObject({ state: 'healthy' });
  });

  it('a failing prepare is named with its exit code, and its output is not taken out of the Pod', async () => {
    const request = { profile: 'agentctl', secretEnv: { SECRET: 'never-shown' }, prepare: 'echo "$SECRET"; exit 7' };
    await world.operator.producer.launch({ version: 1, instanceId: 'unprepared', ...request });
    const ended = await world.until('unprepared', (record) => record?.state === 'failed');
    expect(ended?.failure).toMatchObject({ code: 'prepare_failed', message: expect.stringContaining('exit code 7') });
    expect(JSON.stringify(ended)).not.toContain('never-shown');
  });

  it('commands are refused before anything is made', async () => {
    const launch = world.operator.producer.launch({ version: 1, instanceId: 'commands', profile: 'agentctl', command: ['true'] });
    await expect(launch).rejects.toMatchObject({ code: 'payload_invalid', issues: [{ path: 'command' }] });
  });
});
