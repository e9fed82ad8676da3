import { Queue } from 'bullmq';
import type { World } from '../world.ts';

/** A queue as a service in another language opens it: by the documented name and prefix, knowing nothing else of us. */
export async function withPlainQueue<T>(
  world: World,
  name: 'launch' | 'teardown',
  use: (queue: Queue) => Promise<T>,
): Promise<T> {
  const { installation } = world.loaded.config;
  const queue = new Queue(name, { connection: { url: world.redis.url }, prefix: `{windlass:${installation}:${name}}` });
  try {
    return await use(queue);
  } finally {
    await queue.close();
  }
}
