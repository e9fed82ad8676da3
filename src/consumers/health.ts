import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Queues } from '../producers/queue.ts';
import type { Consumer } from './consumer.ts';
import type { Metrics } from './metrics.ts';

export interface HealthServer {
  readonly port: number;
  close(): Promise<void>;
}

/** A worker with waiting jobs that has not picked one up for this long is stuck, whatever its connections say (C71). */
const stuckMs = 60_000;

/** `/healthz` = makes progress or has nothing to do; `/metrics` for Prometheus. Loopback unless told otherwise. */
export async function startHealthServer(options: {
  port: number;
  host: string;
  queues: Queues;
  consumers: readonly Consumer[];
  metrics: Metrics;
}): Promise<HealthServer> {
  const emptyAt = new Map<string, number>();
  const server = createServer((request, response) => {
    const answer = (status: number, type: string, body: string) => response.writeHead(status, { 'content-type': type }).end(body);
    const route = async () => {
      if (request.url === '/healthz') {
        const stuck = await stuckQueues(options, emptyAt);
        return stuck.length === 0
          ? answer(200, 'text/plain', 'ok\n')
          : answer(503, 'text/plain', `no progress on: ${stuck.join(', ')}\n`);
      }
      if (request.url === '/metrics') return answer(200, options.metrics.contentType, await options.metrics.text());
      return answer(404, 'text/plain', 'try /healthz or /metrics\n');
    };
    route().catch((error: unknown) => answer(503, 'text/plain', `${String(error)}\n`));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, options.host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** `emptyAt`: when each queue was last seen empty. A job that came after that has not waited longer, however idle we were. */
async function stuckQueues(
  { queues, consumers }: { queues: Queues; consumers: readonly Consumer[] },
  emptyAt: Map<string, number>,
): Promise<string[]> {
  const stuck: string[] = [];
  for (const consumer of consumers) {
    const progressAt = Math.max(consumer.lastProgress(), emptyAt.get(consumer.queue) ?? 0);
    if (consumer.running() > 0 || Date.now() - progressAt < stuckMs) continue;
    const counts = await queues[consumer.queue].getJobCounts('waiting', 'prioritized');
    if ((counts.waiting ?? 0) + (counts.prioritized ?? 0) > 0) stuck.push(consumer.queue);
    else emptyAt.set(consumer.queue, Date.now());
  }
  return stuck;
}
