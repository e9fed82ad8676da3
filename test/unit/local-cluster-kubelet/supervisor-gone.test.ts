import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { SupervisorClient } from '../../../src/local-cluster/kubelet/supervisor-client.ts';

it('a supervisor that is gone between the connect and the request is an error of the call, never of the process', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'windlass-gone-'));
  const path = join(dir, 's');
  const server = createServer((socket) => socket.destroy()).listen(path);
  await once(server, 'listening');
  const client = new SupervisorClient(path);
  try {
    const calls = Array.from({ length: 50 }, () => client.stat('/'));
    for (const call of await Promise.allSettled(calls)) expect(call.status).toBe('rejected');
    const run = { group: 'g', main: false, argv: ['true'], env: {}, sandboxed: false, tty: false, stdin: false };
    await expect(client.run(run)).rejects.toThrow();
  } finally {
    server.close();
    await rm(dir, { recursive: true, force: true });
  }
});
