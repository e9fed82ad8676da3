import { once } from 'node:events';
import { chmodSync, rmSync } from 'node:fs';
import { createConnection, createServer, type Server } from 'node:net';
import type { Auth } from './auth.ts';
import { Exit, exitCodes, type Settings } from './settings.ts';

/** Relative to the run folder, which both sides enter first: a socket's whole path may have only 107 characters. */
const socketName = 'agent.sock';
const answerMs = 5000;

/** Whoever may exec in the Pod as our user may have a new token: it could read the file of the old one too. */
export async function listenForRekey(settings: Settings, auth: Auth): Promise<Server> {
  process.chdir(settings.runDir);
  rmSync(socketName, { force: true });
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    socket.end(`${JSON.stringify({ token: auth.rekey() })}\n`);
  });
  server.listen(socketName);
  await once(server, 'listening');
  chmodSync(socketName, 0o600);
  return server;
}

/** The line `{"token": …}` of the running agent. */
export async function requestRekey(settings: Settings): Promise<string> {
  process.chdir(settings.runDir);
  const socket = createConnection(socketName);
  socket.setTimeout(answerMs, () => socket.destroy(new Error('no answer')));
  let text = '';
  try {
    for await (const chunk of socket) text += String(chunk);
  } catch (error) {
    throw new Exit(exitCodes.software, `the agent does not answer: ${(error as Error).message}`);
  }
  if (!text.endsWith('\n')) throw new Exit(exitCodes.software, 'the agent did not finish its answer');
  return text;
}
