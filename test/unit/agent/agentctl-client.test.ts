import type { ServerResponse } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { agentctlPorts, createAgentctlClient } from '../../../src/agent/agentctl-client.ts';
import { type AgentctlFault, type AgentctlStub, startAgentctl } from '../../support/agentctl/stub.ts';
import { freePort, nonce, sink } from './harness.ts';

let stub: AgentctlStub | undefined;
let fault: AgentctlFault = () => undefined;
afterEach(async () => {
  await stub?.close();
  stub = undefined;
  fault = () => undefined;
});

async function start(): Promise<AgentctlStub> {
  const env = {
    AGENTCTL_PORT: '0',
    AGENTCTL_INSTANCE_PORT_BASE: String(agentctlPorts.base),
    AGENTCTL_INSTANCE_PORT_MAX: String(agentctlPorts.max),
    AGENTCTL_BOOTSTRAP_NONCE: nonce,
  };
  stub = await startAgentctl(env, (...seen) => fault(...seen));
  return stub;
}

const at = (port: number, token?: string) =>
  createAgentctlClient({ host: '127.0.0.1', port, instanceId: 'abc', ...(token === undefined ? {} : { token }) });
const client = (token?: string) => at(stub?.port ?? 0, token);
const shake = (value = nonce) => client().handshake({ nonce: value, clientKey: 'not for agentctl' });
const wanted = { id: 'abc', workspace_path: '/workspace' };
const create = async () => client(await shake()).ensureInstance(wanted);

/** Acts on the first request with this method and path only. */
function onFirst(method: string, path: string, act: (response: ServerResponse) => boolean | undefined): AgentctlFault {
  let seen = 0;
  return (request, response, where) => {
    const hit = where === 'control' && request.method === method && request.url === path && seen++ === 0;
    return hit ? act(response) : undefined;
  };
}
const answer = (status: number, body: unknown) => (response: ServerResponse) => {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
  return true;
};
const hangUp = (response: ServerResponse) => response.destroy() !== undefined;
const instances = '/api/v1/instances';
const one = `${instances}/abc`;
const good = { id: 'abc', port: 41_001, status: 'running', workspace_path: '/workspace', created_at: '2026-01-01T00:00:00Z' };

describe('health', () => {
  it('is that of an agent that speaks no protocol of ours', async () => {
    await start();
    expect(await client().health()).toEqual({ status: 'ok', timestamp: expect.any(String) });
  });

  it.each([
    [503, { status: 'ok', timestamp: 'x' }],
    [200, { status: 'starting', timestamp: 'x' }],
    [200, 'hello'],
  ])('is not %s %j', async (status, body) => {
    await start();
    fault = onFirst('GET', '/health', answer(status, body));
    await expect(client().health()).rejects.toMatchObject({ code: 'handshake_failed' });
  });
});

describe('the handshake', () => {
  it('gives a token that opens control and instance server', async () => {
    await start();
    const info = await create();
    expect(stub?.handshakes()).toBe(1);
    expect(await at(info.port).health()).toMatchObject({ status: 'ok' });
  });

  it('says 403 for a wrong nonce, which burns nothing', async () => {
    await start();
    await expect(shake('wrong')).rejects.toMatchObject({ code: 'handshake_failed', evidence: { status: 403 } });
    expect(await shake()).toMatch(/^[0-9a-f]{64}$/);
  });

  it('burns the nonce: a second one is 403 until the process is started anew', async () => {
    await start();
    const first = await shake();
    await expect(shake()).rejects.toMatchObject({ evidence: { status: 403 } });
    await stub?.restart();
    const second = await shake();
    expect(second).not.toBe(first);
    await expect(client(first).instance()).rejects.toMatchObject({ evidence: { status: 401 } });
  });

  it('whose answer is lost is asked once only, and is known as lost', async () => {
    await start();
    let asked = 0;
    fault = (request, response) => {
      if (request.url !== '/auth/handshake') return undefined;
      asked += 1;
      // Burnt by the original handler, but nobody hears of it.
      response.end = () => response.destroy() as never;
      return undefined;
    };
    // A kept connection is there, which a retry could be tempted by.
    await client().health();
    await expect(shake()).rejects.toMatchObject({ code: 'forward_lost' });
    expect(asked).toBe(1);
    fault = () => undefined;
    await expect(shake()).rejects.toMatchObject({ evidence: { status: 403 } });
  });

  it.each(['short', 'x'.repeat(600), `line\r\nInjected: ${'x'.repeat(20)}`, 7, null])('takes no token like %j', async (token) => {
    await start();
    fault = onFirst('POST', '/auth/handshake', answer(200, { token }));
    await expect(shake()).rejects.toMatchObject({ code: 'handshake_failed' });
  });
});

describe('the instance', () => {
  it('is created once, in its workspace, with a port of its own', async () => {
    await start();
    const info = await create();
    expect(info).toMatchObject({ id: 'abc', workspace_path: '/workspace', status: 'running' });
    expect(info.port).toBeGreaterThanOrEqual(agentctlPorts.base);
    expect(info).not.toHaveProperty('env');
    expect(stub?.instances.size).toBe(1);
  });

  it('is found when the answer to its creation is lost', async () => {
    await start();
    const token = await shake();
    fault = (request, response) => {
      if (request.method === 'POST' && request.url === instances) response.end = () => response.destroy() as never;
      return undefined;
    };
    expect(await client(token).ensureInstance(wanted)).toMatchObject({ id: 'abc' });
    expect(stub?.instances.size).toBe(1);
  });

  it('is found when the creation says 500 because it was there already (asked for in the same moment)', async () => {
    await start();
    const token = await shake();
    await client(token).ensureInstance(wanted);
    // The first question comes before the other attempt is through.
    fault = onFirst('GET', one, answer(404, { error: 'instance not found' }));
    expect(await client(token).ensureInstance(wanted)).toMatchObject({ id: 'abc' });
    expect(stub?.instances.size).toBe(1);
  });

  it('that is there with another workspace is refused', async () => {
    await start();
    const token = await shake();
    await client(token).ensureInstance({ id: 'abc', workspace_path: '/elsewhere' });
    await expect(client(token).ensureInstance(wanted)).rejects.toMatchObject({
      code: 'handshake_failed',
      message: expect.stringContaining('/elsewhere'),
    });
  });

  it.each([
    ['500 and nothing there', answer(500, { error: 'no free port' }), 'handshake_failed', 'no free port'],
    ['a definite refusal', answer(400, { error: 'workspace_path is required' }), 'handshake_failed', 'workspace_path'],
    ['a lost answer and nothing there', hangUp, 'forward_lost', ''],
    ['another id', answer(201, { id: 'other', port: 41_001 }), 'handshake_failed', 'another'],
    ['what is not there', answer(201, { id: 'abc', port: 41_001 }), 'handshake_failed', 'another'],
  ])('is not taken for created after %s', async (_what, act, code, words) => {
    await start();
    const token = await shake();
    fault = onFirst('POST', instances, act);
    const failed = client(token).ensureInstance(wanted);
    await expect(failed).rejects.toMatchObject({ code, message: expect.stringContaining(words) });
    expect(stub?.instances.size).toBe(0);
  });

  it.each([
    ['another id', { ...good, id: 'other' }],
    ['a port outside of the range', { ...good, port: 22 }],
    ['a huge text', { ...good, status: 'x'.repeat(5000) }],
    ['no object', [good]],
    ['no JSON', '<html>'],
    ['something deep', '['.repeat(500_000)],
  ])('is not believed with %s', async (_what, body) => {
    await start();
    const token = await shake();
    fault = onFirst('GET', one, answer(200, body));
    await expect(client(token).instance()).rejects.toMatchObject({ code: 'handshake_failed' });
  });

  it('that the idle reaper took away is unknown, and made again with the same token', async () => {
    await start();
    const token = await shake();
    await client(token).ensureInstance(wanted);
    await fetch(`http://127.0.0.1:${stub?.port}${one}`, { method: 'DELETE', headers: { authorization: `Bearer ${token}` } });
    expect(await client(token).instance()).toBeUndefined();
    expect(await client(token).ensureInstance(wanted)).toMatchObject({ id: 'abc' });
  });
});

describe('a hostile agent', () => {
  it('is not read without end', async () => {
    await start();
    fault = (_request, response) => {
      response.writeHead(200);
      const more = () => {
        while (!response.destroyed && response.write(' '.repeat(65_536))) {}
      };
      response.on('drain', more);
      more();
      return true;
    };
    await expect(client().health()).rejects.toMatchObject({
      code: 'handshake_failed',
      message: expect.stringContaining('more than'),
    });
  });

  it('cannot put control characters or a flood into our messages', async () => {
    await start();
    fault = onFirst('POST', '/auth/handshake', answer(403, { error: `\u001b[31m\u202e${'x'.repeat(9000)}` }));
    const error = await shake().catch((thrown: Error) => thrown);
    expect((error as Error).message).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    expect((error as Error).message.length).toBeLessThan(500);
  });

  it('that is silent is left when the caller has waited enough', async () => {
    await start();
    fault = () => true;
    const stop = new AbortController();
    const waits = client().health(stop.signal);
    stop.abort(new Error('stopped'));
    await expect(waits).rejects.toThrow('stopped');
  });

  it('that is not there is forward_lost; commands are never sent to it', async () => {
    const nobody = at(await freePort());
    await expect(nobody.health()).rejects.toMatchObject({ code: 'forward_lost' });
    const exec = nobody.exec({ command: ['true'], stdin: false }, { stdout: sink(), stderr: sink() });
    await expect(exec).rejects.toMatchObject({ code: 'handshake_failed', hint: expect.stringContaining('through the cluster') });
  });
});
