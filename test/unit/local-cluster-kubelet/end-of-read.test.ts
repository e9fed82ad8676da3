import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { endOfRead, type Run } from '../../../src/local-cluster/kubelet/supervisor-client.ts';

it('the end of a program that was over before anybody listened comes after its output', async () => {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  stdout.end('last words');
  stderr.end();
  const run = { stdout, stderr, exit: Promise.resolve({ exitCode: 1 }) } as Partial<Run> as Run;
  // Listened to and asked in one turn, as a reader does that was told of the start and the end at once.
  const { output, exit } = await Promise.resolve().then(async () => {
    let output = '';
    stdout.on('data', (chunk: Buffer) => {
      output += chunk;
    });
    stderr.resume();
    const exit = await endOfRead(run);
    return { output, exit };
  });
  expect(exit).toEqual({ exitCode: 1 });
  expect(output).toBe('last words');
});
