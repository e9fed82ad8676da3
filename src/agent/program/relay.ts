import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { Exit, exitCodes } from './settings.ts';

/** The agent serves a moment after its marker came; whoever connects waits here, which costs no request to the cluster. */
const serveWithinMs = 4000;
const againMs = 50;

interface Address {
  readonly host: string;
  readonly port: number;
}

/**
 * One connection to the agent's port over this process's stdin and stdout, for Pods whose runtime forwards no ports.
 * Settles when the agent has closed its side; throws when it does not serve, or broke off.
 */
export async function relay(address: Address, input: Readable, output: Writable): Promise<void> {
  const socket = await reach(address);
  // Without the reader there is nobody to relay to; the process is of no more use.
  output.on('error', () => socket.destroy());
  input.pipe(socket);
  socket.pipe(output, { end: false });
  try {
    await once(socket, 'close');
  } catch (error) {
    throw new Exit(exitCodes.software, `the connection to the agent broke: ${(error as Error).message}`);
  }
}

async function reach(address: Address): Promise<Socket> {
  const until = performance.now() + serveWithinMs;
  for (;;) {
    const socket = connect({ ...address, allowHalfOpen: true, noDelay: true });
    try {
      await once(socket, 'connect');
      return socket;
    } catch (error) {
      socket.destroy();
      if (performance.now() > until)
        throw new Exit(exitCodes.software, `the agent does not serve: ${(error as NodeJS.ErrnoException).code}`);
    }
    await delay(againMs);
  }
}
