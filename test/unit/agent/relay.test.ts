import { once } from 'node:events';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { relayCommand } from '../../../src/agent/boot.ts';
import { outcome, Pod, until } from './harness.ts';

let pod: Pod;
beforeEach(async () => {
  pod = await Pod.create();
});
afterEach(() => pod.dispose());

const ask = (path: string) => `GET ${path} HTTP/1.1\r\nHost: agent\r\n\r\n`;

it('carries one connection to the agent over stdin and stdout, request after request, and ends with its stdin', async () => {
  await pod.serve();
  const child = pod.spawn(relayCommand());
  const ended = outcome(child);
  let seen = '';
  child.stdout!.on('data', (chunk) => {
    seen += chunk;
  });
  child.stdin!.write(ask('/health'));
  await until(() => seen.includes('"status":"ok"'), 'the first answer');
  child.stdin!.write(ask('/nothing'));
  await until(() => seen.includes('401'), 'the second answer');
  child.stdin!.end();
  expect(await ended).toMatchObject({ code: 0, stderr: '' });
});

it('waits for an agent that is about to serve', async () => {
  const child = pod.spawn(relayCommand());
  const ended = outcome(child);
  child.stdin!.end(ask('/health'));
  await pod.serve();
  expect(await ended).toMatchObject({ code: 0, stdout: expect.stringContaining('"status":"ok"') });
});

it('says so when no agent serves', async () => {
  const ended = outcome(pod.spawn(relayCommand()));
  expect(await ended).toMatchObject({ code: 70, stdout: '', stderr: expect.stringContaining('the agent does not serve') });
});

it('ends with its reader', async () => {
  const agent = await pod.serve();
  const child = pod.spawn(relayCommand());
  const exit = once(child, 'exit');
  child.stdin!.write(ask('/health'));
  await once(child.stdout!, 'data');
  child.stdout!.destroy();
  child.stdin!.write(ask('/health'));
  expect((await exit)[0]).toBe(0);
  expect(agent.exitCode).toBeNull();
});
