import { writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, describe, expect, it } from 'vitest';
import { WindlassError } from '../../../src/errors.ts';
import { isAmbiguous } from '../../../src/kubernetes/api-error.ts';
import { createClusters } from '../../../src/kubernetes/clusters.ts';
import type { Cluster, Clusters } from '../../../src/kubernetes/port.ts';
import type { CallSeen } from '../../../src/kubernetes/rest.ts';
import {
  answer,
  failure,
  quietLog,
  type StubHandlers,
  type StubServer,
  startStub,
  until,
  writeKubeconfig,
} from './stub-server.ts';

let stub: StubServer;
let clusters: Clusters;
const calls: CallSeen[] = [];

async function connect(http: NonNullable<StubHandlers['http']>, overrides: object = {}): Promise<Cluster> {
  stub = await startStub({ http });
  calls.length = 0;
  clusters = createClusters(
    { main: stub.config(overrides) },
    { installation: 'local', dir: stub.dir, log: quietLog, onCall: (_cluster, call) => calls.push(call) },
  );
  return clusters.get('main');
}
afterEach(async () => {
  await clusters.close();
  await stub.close();
});

const pod = { metadata: { name: 'windlass-x', uid: 'u1' } };
const thrownBy = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 'nothing',
    (error: unknown) => error,
  );

describe('calls', () => {
  it('share a few connections, carry the credentials and are counted', async () => {
    const cluster = await connect((_request, response) => answer(response, 200, pod));
    for (let index = 0; index < 20; index += 1) await cluster.read('pods', 'windlass-x');
    // One would do; a kept connection may have to be opened anew when this machine is slow.
    expect(stub.connections()).toBeLessThan(10);
    expect(stub.received[0]?.headers).toMatchObject({ authorization: 'Bearer secret-token', 'user-agent': 'windlass' });
    expect(calls).toHaveLength(20);
    expect(calls[0]).toMatchObject({ verb: 'get', resource: 'pods', code: 200 });
  });

  it("take the server's clock from its answers", async () => {
    const cluster = await connect((_request, response) =>
      answer(response, 200, pod, { date: new Date(Date.now() + 600_000).toUTCString() }),
    );
    const asked = Date.now();
    await cluster.read('pods', 'windlass-x');
    // Its header has whole seconds, and it may have been made at any time while we waited.
    expect(Math.abs(cluster.clockSkewMs() - 600_000)).toBeLessThan(1000 + Date.now() - asked + 1);
  });

  it('I16: send nothing for a name that is none', async () => {
    const cluster = await connect((_request, response) => answer(response, 200, pod));
    for (const name of ['', '.', '..', 'a/../b', 'X']) {
      for (const call of [
        () => cluster.read('pods', name),
        () => cluster.remove('pods', name, { uid: 'u1' }),
        () => cluster.patch('pods', name, {}),
        () => cluster.create('pods', { metadata: { name } }),
        () => cluster.exec({ pod: name, container: 'agent' }, ['true']),
        () => cluster.forward(name, 80),
        () => cluster.logTail(name),
      ])
        expect(await thrownBy((async () => call())())).toMatchObject({ code: 'invariant_broken' });
    }
    expect(await thrownBy(cluster.remove('pods', 'windlass-x', { uid: '' }))).toMatchObject({ code: 'invariant_broken' });
    expect(stub.received).toEqual([]);
  });

  it('repeat a read, but never a write, whose connection broke', async () => {
    let failures = 1;
    const cluster = await connect((_request, response) => {
      if (failures-- > 0) response.socket?.destroy();
      else answer(response, 200, pod);
    });
    expect(await cluster.read('pods', 'windlass-x')).toMatchObject({ metadata: { uid: 'u1' } });
    failures = 1;
    const error = await thrownBy(cluster.create('pods', pod));
    expect(error).toMatchObject({ code: 'cluster_unreachable' });
    expect(isAmbiguous(error)).toBe(true);
    expect(stub.received.filter(({ method }) => method === 'POST')).toHaveLength(1);
  });

  it('I5: are ambiguous when no answer comes in time, or only half of one', async () => {
    let half = false;
    const cluster = await connect(
      (_request, response) => {
        if (!half) return;
        response.writeHead(201, { 'content-type': 'application/json', 'content-length': '1000' });
        response.write('{"metadata":');
        response.socket?.end();
      },
      { requestTimeoutSeconds: 1 },
    );
    const late = await thrownBy(cluster.create('pods', pod));
    expect(late).toMatchObject({ code: 'cluster_unreachable' });
    expect(isAmbiguous(late)).toBe(true);
    half = true;
    expect(isAmbiguous(await thrownBy(cluster.create('pods', pod)))).toBe(true);
  });

  it("I5: an abort before the send leaves no doubt, one after it does, and a read keeps the caller's reason", async () => {
    const cluster = await connect(() => {});
    const reason = new WindlassError('lease_lost');
    expect(await thrownBy(cluster.create('pods', pod, { signal: AbortSignal.abort(reason) }))).toBe(reason);
    expect(stub.received).toEqual([]);
    for (const call of [
      (signal: AbortSignal) => cluster.create('pods', pod, { signal }),
      (signal: AbortSignal) => cluster.read('pods', 'x', { signal }),
    ]) {
      const seen = stub.received.length;
      const controller = new AbortController();
      const outcome = thrownBy(call(controller.signal));
      await until('the request', () => stub.received.length > seen);
      controller.abort(reason);
      const error = await outcome;
      if (stub.received.at(-1)?.method === 'GET') expect(error).toBe(reason);
      else expect(isAmbiguous(error)).toBe(true);
    }
  });

  it('are not ambiguous when nobody listens', async () => {
    const cluster = await connect(() => {});
    writeKubeconfig(stub.dir, 'http://127.0.0.1:1', {});
    const error = await thrownBy(cluster.create('pods', pod));
    expect(error).toMatchObject({ code: 'cluster_unreachable' });
    expect(isAmbiguous(error)).toBe(false);
  });

  it('C69: hand on what a 429 asks for', async () => {
    const cluster = await connect((_request, response) =>
      answer(response, 429, failure(429, 'TooManyRequests', 'slow down'), { 'retry-after': '2' }),
    );
    expect(await thrownBy(cluster.create('pods', pod))).toMatchObject({ code: 'throttled', retryAfterMs: 2000 });
    expect(stub.received).toHaveLength(1);
  });
});

it('a stream lives on when the time of a call has passed', async () => {
  let streaming: ServerResponse | undefined;
  const cluster = await connect(
    (request, response) => {
      if (!request.url.pathname.endsWith('/log')) return;
      streaming = response;
      response.writeHead(200).flushHeaders();
    },
    { requestTimeoutSeconds: 1 },
  );
  const sink = new PassThrough();
  const ended = cluster.logs('windlass-x', sink, { follow: true });
  await until('the stream', () => streaming !== undefined);
  // A call that is never answered is over after the whole time of a call: the stream was there before it.
  expect(isAmbiguous(await thrownBy(cluster.create('pods', pod)))).toBe(true);
  streaming?.end('still here');
  await ended;
  expect(sink.read()?.toString()).toBe('still here');
});

describe('C67: credentials', () => {
  it('are asked for again after a 401, once and silently', async () => {
    let accepted = 'Bearer token-1';
    const cluster = await connect((request, response) => {
      if (request.headers.authorization === accepted) answer(response, 200, pod);
      else answer(response, 401, failure(401, 'Unauthorized', 'Unauthorized'));
    });
    const counter = join(stub.dir, 'counter');
    const plugin = join(stub.dir, 'plugin.cjs');
    writeFileSync(counter, '0');
    writeFileSync(
      plugin,
      `const fs = require('fs'); const n = Number(fs.readFileSync(${JSON.stringify(counter)}, 'utf8')) + 1;
       fs.writeFileSync(${JSON.stringify(counter)}, String(n));
       console.log(JSON.stringify({ kind: 'ExecCredential', status: { token: 'token-' + n } }));`,
    );
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: process.execPath, args: [plugin] };
    writeKubeconfig(stub.dir, stub.origin, { exec });
    expect(await cluster.read('pods', 'windlass-x')).toBeDefined();
    expect(await cluster.read('pods', 'windlass-x')).toBeDefined();
    expect(stub.received.map(({ headers }) => headers.authorization)).toEqual(['Bearer token-1', 'Bearer token-1']);
    accepted = 'Bearer token-2';
    expect(await cluster.create('pods', pod)).toBeDefined();
    expect(stub.received.slice(2).map(({ headers }) => headers.authorization)).toEqual(['Bearer token-1', 'Bearer token-2']);
    accepted = 'nobody';
    expect(await thrownBy(cluster.read('pods', 'windlass-x'))).toMatchObject({ code: 'permission_denied' });
  });
});

describe('deletes', () => {
  const uid = 'u1';
  it('I12: carry the preconditions, and take NotFound for done', async () => {
    const cluster = await connect((_request, response) => answer(response, 404, failure(404, 'NotFound', 'pods "x" not found')));
    expect(await cluster.remove('pods', 'windlass-x', { uid, resourceVersion: '7', graceSeconds: 1 })).toBe('gone');
    expect(JSON.parse(stub.received[0]?.body ?? '')).toMatchObject({
      preconditions: { uid, resourceVersion: '7' },
      gracePeriodSeconds: 1,
    });
  });

  it('I12: look at the object after a conflict, and decide', async () => {
    let there: string | undefined = uid;
    let conflicts = 2;
    const cluster = await connect((request, response) => {
      if (request.method === 'GET') {
        if (there === undefined) answer(response, 404, failure(404, 'NotFound', 'gone'));
        else answer(response, 200, { metadata: { name: 'windlass-x', uid: there } });
      } else if (conflicts-- > 0) answer(response, 409, failure(409, 'Conflict', 'the object has been modified'));
      else answer(response, 200, { kind: 'Pod', metadata: { uid } });
    });
    expect(await cluster.remove('pods', 'windlass-x', { uid })).toBe('deleting');
    conflicts = 1;
    there = 'another';
    expect(await cluster.remove('pods', 'windlass-x', { uid })).toBe('gone');
    conflicts = 1;
    there = undefined;
    expect(await cluster.remove('pods', 'windlass-x', { uid })).toBe('gone');
    conflicts = 99;
    there = uid;
    expect(await thrownBy(cluster.remove('pods', 'windlass-x', { uid }))).toMatchObject({ code: 'conflict' });
    const before = stub.received.length;
    expect(await thrownBy(cluster.remove('pods', 'windlass-x', { uid, resourceVersion: '1' }))).toMatchObject({
      code: 'conflict',
    });
    expect(stub.received.length - before).toBe(2);
  });
});

describe('listing metadata', () => {
  it('starts again when the continue token has expired', async () => {
    let expired = false;
    const cluster = await connect((request, response) => {
      const token = request.url.searchParams.get('continue');
      if (token === null) answer(response, 200, { items: [{ metadata: { name: 'a' } }], metadata: { continue: 'next' } });
      else if (!expired) {
        expired = true;
        answer(response, 410, failure(410, 'Expired', 'the token has expired'));
      } else answer(response, 200, { items: [{ metadata: { name: 'b' } }], metadata: {} });
    });
    const names: unknown[] = [];
    for await (const page of cluster.listMetadata('pods', 'a=b')) names.push(...page.items.map(({ name }) => name));
    expect(names).toEqual(['a', 'a', 'b']);
    expect(stub.received[0]?.headers.accept).toContain('PartialObjectMetadataList');
  });
});
