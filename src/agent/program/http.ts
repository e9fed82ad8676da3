import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AgentError } from '../protocol.ts';

/** Larger bodies are refused. */
const maxBody = 1 << 20;

/** A refusal with its status; the message goes to the client, so it names no secret. */
export class Refusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    size += (chunk as Buffer).length;
    if (size > maxBody) throw new Refusal(413, `the body is larger than ${maxBody} bytes`);
    chunks.push(chunk as Buffer);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch {
    throw new Refusal(400, 'the body is not JSON');
  }
}

export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  const text = JSON.stringify(body);
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  response.end(text);
}

export function sendRefusal(response: ServerResponse, thrown: unknown): void {
  const refusal = asRefusal(thrown);
  // The rest of a body that was not read would be taken for the next request.
  if (!response.req.complete) response.setHeader('connection', 'close');
  if (refusal.status === 429) response.setHeader('retry-after', '2');
  sendJson(response, refusal.status, { error: refusal.message } satisfies AgentError);
}

/** Our own faults are told to the container log and not to the client. */
export function asRefusal(thrown: unknown): Refusal {
  if (thrown instanceof Refusal) return thrown;
  process.stderr.write(`windlass: ${(thrown as Error).stack ?? thrown}\n`);
  return new Refusal(500, 'internal error');
}
