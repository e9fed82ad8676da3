import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Where a request came in, before anything is done about it: true = the fault answers, or does not. */
export type AgentctlFault = (
  request: IncomingMessage & { readonly body: string },
  response: ServerResponse,
  at: 'control' | 'instance',
) => boolean | undefined;

export interface AgentctlStub {
  readonly port: number;
  readonly instances: ReadonlyMap<string, Instance>;
  /** Handshakes that were answered with a token. */
  handshakes(): number;
  /** What a restart of the process does: another token, the same nonce armed again, no instances. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

interface Instance {
  readonly id: string;
  readonly port: number;
  readonly workspace_path: string;
  readonly server: Server;
  readonly createdAt: string;
}

type Env = Readonly<Record<string, string | undefined>>;

/**
 * agentctl as reference-systems §2 describes it, its faults included: a nonce that burns with the answer that may be lost, no
 * limit on tries, 500 for a duplicate id, a bare array as list, one more server per instance.
 */
export async function startAgentctl(env: Env, fault: AgentctlFault = () => undefined): Promise<AgentctlStub> {
  const agent = new Agentctl(env, fault);
  await agent.listen();
  return agent;
}

class Agentctl implements AgentctlStub {
  readonly instances = new Map<string, Instance>();
  readonly #env: Env;
  readonly #fault: AgentctlFault;
  readonly #server = createServer((request, response) => void this.#serve(request, response, 'control'));
  #token = '';
  #pending = '';
  #handshakes = 0;

  constructor(env: Env, fault: AgentctlFault) {
    this.#env = env;
    this.#fault = fault;
    this.#arm();
  }

  #arm(): void {
    this.#pending = this.#env.AGENTCTL_BOOTSTRAP_NONCE ?? '';
    this.#token = this.#pending === '' ? '' : randomBytes(32).toString('hex');
  }

  get #host(): string {
    return this.#env.AGENTCTL_LISTEN_HOST ?? '127.0.0.1';
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  handshakes(): number {
    return this.#handshakes;
  }

  async listen(): Promise<void> {
    this.#server.listen(Number(this.#env.AGENTCTL_PORT ?? 39429), this.#host);
    await once(this.#server, 'listening');
  }

  async restart(): Promise<void> {
    await this.#stopInstances();
    this.#arm();
  }

  async close(): Promise<void> {
    await this.#stopInstances();
    await closed(this.#server);
  }

  async #stopInstances(): Promise<void> {
    await Promise.all([...this.instances.values()].map(({ server }) => closed(server)));
    this.instances.clear();
  }

  async #serve(request: IncomingMessage, response: ServerResponse, at: 'control' | 'instance', id = ''): Promise<void> {
    let body = '';
    try {
      for await (const chunk of request) body += chunk;
    } catch {
      return; // The client hung up in the middle of its request.
    }
    if (this.#fault(Object.assign(request, { body }), response, at)) return;
    const path = new URL(request.url ?? '/', 'http://agentctl').pathname;
    if (path === '/health') return json(response, 200, { status: 'ok', timestamp: new Date().toISOString() });
    if (at === 'control' && path === '/auth/handshake') return this.#handshake(body, response);
    if (this.#token !== '' && request.headers.authorization !== `Bearer ${this.#token}`)
      return json(response, 401, { error: 'unauthorized' });
    if (at === 'instance') {
      const meant = request.headers['x-instance-id'];
      if (typeof meant === 'string' && meant.trim() !== id) return json(response, 404, { error: 'wrong instance' });
      return json(response, 404, { error: 'not found' });
    }
    return this.#control(request.method ?? '', path, body, response);
  }

  async #handshake(body: string, response: ServerResponse): Promise<void> {
    const { nonce } = parse(body) as { nonce?: unknown };
    if (typeof nonce !== 'string' || nonce === '') return json(response, 400, { error: 'nonce is required' });
    if (nonce !== this.#pending) return json(response, 403, { error: 'invalid or already consumed nonce' });
    this.#pending = '';
    this.#handshakes += 1;
    json(response, 200, { token: this.#token });
  }

  async #control(method: string, path: string, body: string, response: ServerResponse): Promise<void> {
    const id = /^\/api\/v1\/instances\/([^/]+)$/.exec(path)?.[1];
    if (path === '/api/v1/instances' && method === 'POST') return this.#create(body, response);
    if (path === '/api/v1/instances' && method === 'GET') return json(response, 200, [...this.instances.values()].map(info));
    const instance = id === undefined ? undefined : this.instances.get(id);
    if (instance === undefined) return json(response, 404, { error: 'instance not found' });
    if (method === 'GET') return json(response, 200, info(instance));
    await closed(instance.server);
    this.instances.delete(instance.id);
    json(response, 200, { message: 'instance stopped' });
  }

  async #create(body: string, response: ServerResponse): Promise<void> {
    const { id = randomBytes(8).toString('hex'), workspace_path } = parse(body) as { id?: string; workspace_path?: string };
    if (!workspace_path) return json(response, 400, { error: 'workspace_path is required' });
    if (this.instances.has(id)) return json(response, 500, { error: `instance ${id} already exists` });
    const server = createServer((request, answer) => void this.#serve(request, answer, 'instance', id));
    const port = await this.#firstFree(server);
    if (port === undefined) return json(response, 500, { error: 'no free port' });
    this.instances.set(id, { id, port, workspace_path, server, createdAt: new Date().toISOString() });
    json(response, 201, { id, port });
  }

  async #firstFree(server: Server): Promise<number | undefined> {
    const [base, max] = [Number(this.#env.AGENTCTL_INSTANCE_PORT_BASE), Number(this.#env.AGENTCTL_INSTANCE_PORT_MAX)];
    for (let port = base; port <= max; port++) {
      server.listen(port, this.#host);
      try {
        await once(server, 'listening');
        return port;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
      }
    }
    return undefined;
  }
}

function info({ id, port, workspace_path, createdAt }: Instance): object {
  return { id, port, status: 'running', workspace_path, agent_command: '', env: {}, created_at: createdAt };
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body) ?? {};
  } catch {
    return {};
  }
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

function closed(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}
