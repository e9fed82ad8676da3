import { writeFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Api, eventually, podBody, startApi } from './local-cluster-client.ts';

let api: Api;
let folder: string;
const home = '/api/v1/namespaces/default';
const maps = `${home}/configmaps`;
let count = 0;
const fresh = () => {
  count += 1;
  return `m${count}`;
};
const rules = (...list: object[]) => writeFileSync(join(folder, 'faults.yaml'), JSON.stringify({ rules: list }));
const onCreate = (fault: unknown) => ({ verb: 'create', resource: 'configmaps', fault });
const create = (name: string) => api.call('POST', maps, { metadata: { name } });
const exists = async (name: string) => (await api.call('GET', `${maps}/${name}`)).code === 200;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'windlass-faults-'));
  rules();
  api = await startApi({ faults: join(folder, 'faults.yaml'), auditLog: join(folder, 'audit.ndjson') });
  await api.call('POST', `${home}/pods`, podBody('p'));
});
afterAll(async () => {
  await api.close();
  await rm(folder, { recursive: true });
});
beforeEach(() => rules());

describe('faults on writes', () => {
  it('answer with an error before anything is written', async () => {
    rules({ ...onCreate({ error: { code: 429, reason: 'TooManyRequests', message: 'slow down', retryAfter: 3 } }), times: 1 });
    const name = fresh();
    const { code, body, headers } = await create(name);
    expect([code, body.reason, body.message, headers['retry-after']]).toEqual([429, 'TooManyRequests', 'slow down', '3']);
    expect(await exists(name)).toBe(false);
    expect((await create(name)).code).toBe(201);
  });

  it('drop the connection before or after the write', async () => {
    const [before, after] = [fresh(), fresh()];
    rules(onCreate('drop_before'));
    await expect(create(before)).rejects.toThrow();
    rules(onCreate('commit_then_drop'));
    await expect(create(after)).rejects.toThrow();
    rules();
    expect([await exists(before), await exists(after)]).toEqual([false, true]);
  });

  it('write late although the client has left', async () => {
    rules(onCreate({ delayThenCommitMs: 300 }));
    const name = fresh();
    const gone = new AbortController();
    const call = fetchless(name, gone.signal);
    setTimeout(() => gone.abort(), 50);
    await expect(call).rejects.toThrow();
    rules();
    expect(await exists(name)).toBe(false);
    await eventually(async () => ((await exists(name)) ? true : undefined));
  });

  it('change the object, deny it, or act out a webhook that is down', async () => {
    rules(onCreate({ mutate: [{ op: 'add', path: '/data', value: { by: 'webhook' } }] }));
    expect((await create(fresh())).body.data).toEqual({ by: 'webhook' });
    rules(onCreate({ deny: 'not on my watch' }));
    expect(await create(fresh())).toMatchObject({
      code: 403,
      body: { message: expect.stringMatching(/^admission webhook .* denied the request: not on my watch$/) },
    });
    rules(onCreate({ webhookDown: true }));
    expect(await create(fresh())).toMatchObject({
      code: 500,
      body: { reason: 'InternalError', message: expect.stringContaining('failed calling webhook') },
    });
  });

  it('mark a claim whose volume attaches late, for the node to read', async () => {
    rules({ verb: 'create', resource: 'pods', fault: { attachMs: 700 } });
    const { body } = await api.call('POST', `${home}/pods`, podBody('late'));
    expect(body.metadata.annotations).toEqual({ 'fault.local/attach-ms': '700' });
  });
});

/** A create that can be given up. */
async function fetchless(name: string, signal: AbortSignal): Promise<void> {
  const { request } = await import('undici');
  const body = JSON.stringify({ metadata: { name } });
  const headers = { authorization: `Bearer ${api.cluster.token}`, 'content-type': 'application/json' };
  await request(`${api.cluster.url}${maps}`, { method: 'POST', dispatcher: api.agent, signal, headers, body });
}

describe('faults on reads', () => {
  it('hide new objects from lists for a while', async () => {
    rules({ verb: 'list', resource: 'configmaps', fault: { hide_from_list_ms: 400 } });
    const name = fresh();
    await create(name);
    const listed = async () =>
      (await api.call('GET', maps)).body.items.some(({ metadata }: { metadata: { name: string } }) => metadata.name === name);
    expect(await listed()).toBe(false);
    expect(await exists(name)).toBe(true);
    await eventually(async () => ((await listed()) ? true : undefined));
  });

  it('move the clock of answers and of new objects', async () => {
    rules({ fault: { clock_skew_ms: -3_600_000 } });
    const { headers, body } = await create(fresh());
    expect(Date.parse(String(headers.date))).toBeLessThan(Date.now() - 3_500_000);
    expect(Date.parse(body.metadata.creationTimestamp)).toBeLessThan(Date.now() - 3_500_000);
  });

  it('silence, end or expire watches, also those already open', async () => {
    const silent = await api.watch(`${maps}?watch=1`);
    await eventually(() => silent.events[0]);
    rules({ verb: 'watch', resource: 'configmaps', fault: 'watch_silence' });
    // The file is looked at with every request: the create below cannot overtake the rule.
    const name = fresh();
    await create(name);
    rules({ verb: 'watch', resource: 'configmaps', fault: 'watch_gone' });
    await create(fresh());
    await silent.ended;
    expect(silent.events.some(({ object }) => object.metadata?.name === name)).toBe(false);

    rules();
    const gone = await api.watch(`${maps}?watch=1`);
    await eventually(() => gone.events[0]);
    rules({ verb: 'watch', resource: 'configmaps', fault: 'watch_gone' });
    expect((await gone.until(({ type }) => type === 'ERROR')).object).toMatchObject({ code: 410 });
    rules({ verb: 'watch', resource: 'configmaps', fault: 'watch_close' });
    const closed = await api.watch(`${maps}?watch=1`);
    await closed.ended;
    expect(closed.events.every(({ type }) => type === 'ADDED')).toBe(true);
  });
});

describe('faults on streams', () => {
  const pod = `${home}/pods/p`;
  const on = (subresource: string, fault: unknown) => ({ verb: 'create', resource: 'pods', subresource, fault });
  const closed = (path: string, protocols: string[]) =>
    new Promise<{ code: number; channels: number[]; bytes: number; protocol: string }>((resolve, reject) => {
      const socket = api.socket(path, protocols);
      const channels: number[] = [];
      let bytes = 0;
      socket.on('open', () => path.includes('portforward') && socket.send(Buffer.from('\0x')));
      socket.on('message', (raw: Buffer) => {
        channels.push(raw[0]!);
        bytes += raw.length - 1;
      });
      socket.on('error', reject);
      socket.on('close', (code) => resolve({ code, channels, bytes, protocol: socket.protocol }));
    });

  it('leave out the status, break off in the middle, or know v4 only', async () => {
    rules(on('exec', 'exec_no_status'));
    const silent = await closed(`${pod}/exec?command=echo&command=x&stdout=true`, ['v5.channel.k8s.io']);
    expect([silent.code, silent.channels.includes(3)]).toEqual([1000, false]);
    rules(on('exec', { exec_drop_after: 1000 }));
    const broken = await closed(`${pod}/exec?command=head&command=-c&command=1000000&command=/dev/zero&stdout=true`, [
      'v5.channel.k8s.io',
    ]);
    expect([broken.code, broken.bytes < 1_000_000]).toEqual([1006, true]);
    rules(on('exec', 'exec_v4_only'));
    const old = await closed(`${pod}/exec?command=true&stdout=true`, ['v5.channel.k8s.io', 'v4.channel.k8s.io']);
    expect(old.protocol).toBe('v4.channel.k8s.io');
    await expect(closed(`${pod}/exec?command=true&stdout=true`, ['v5.channel.k8s.io'])).rejects.toThrow('403');
  });

  it('refuse or reset a forward', async () => {
    rules(on('portforward', 'forward_refuse'));
    expect((await closed(`${pod}/portforward?ports=80`, ['v4.channel.k8s.io'])).channels).toEqual([0, 1, 1]);
    rules(on('portforward', 'forward_reset'));
    expect(await closed(`${pod}/portforward?ports=80`, ['v4.channel.k8s.io'])).toMatchObject({ code: 1006, channels: [0, 1] });
  });
});

describe('the audit log', () => {
  it('has one line a request, with what it was about and how it ended', async () => {
    const name = fresh();
    const { body } = await create(name);
    const dropped = fresh();
    rules({ ...onCreate('commit_then_drop'), times: 1 });
    await expect(create(dropped)).rejects.toThrow();
    rules();
    await api.call('GET', `${maps}/nope`);
    const entries = await eventually(async () => {
      const lines = (await readFile(join(folder, 'audit.ndjson'), 'utf8'))
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      return lines.some((entry) => entry.name === 'nope') ? lines : undefined;
    });
    expect(entries.find((entry) => entry.uid === body.metadata.uid)).toMatchObject({
      verb: 'create',
      resource: 'configmaps',
      subresource: '',
      namespace: 'default',
      // Its path has none: what the log is read for is which object it was.
      name,
      code: 201,
      ms: expect.any(Number),
      at: expect.any(String),
      userAgent: expect.any(String),
    });
    expect(entries.find((entry) => entry.name === dropped)).toMatchObject({ code: 0, faults: ['commit_then_drop'] });
    expect(entries.find((entry) => entry.name === name)).not.toHaveProperty('faults');
    expect(entries.find((entry) => entry.name === 'nope')).toMatchObject({ verb: 'get', code: 404 });
    expect(entries.some((entry) => entry.subresource === 'exec' && entry.code === 101)).toBe(true);
    expect(entries.some((entry) => entry.code === 0)).toBe(true);
  });
});
