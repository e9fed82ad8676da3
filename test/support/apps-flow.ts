import type { InstanceEvent, InstanceRecord } from '../../src/inventory/types.ts';
import { sweepsByHand } from './sweeps-by-hand.ts';
import type { World } from './world.ts';

/** Apps whose image is a shell, and one whose image nobody allowed. */
export const appsConfig = (image: string) => ({
  apps: {
    stays: {
      image,
      env: { OWN: 'of the operator' },
      allowEnv: ['OPEN', 'OWN'],
      allow: ['command', 'prepare', 'repository', 'secretEnv'],
    },
    job: { image, allow: ['command'] },
    elsewhere: { image: 'registry.invalid/team/app:1' },
  },
  images: { allow: [image, 'node:*', '**/node:*'] },
  retention: { finishedSeconds: 2 },
  // Nothing else sweeps meanwhile, and a pass on demand judges at once.
  sweeps: sweepsByHand,
});

const staying = ['sh', '-c', 'trap "exit 0" TERM; while :; do sleep 0.2; done'];

/** What the app suites do, the same on every cluster. */
export function appSteps(world: World) {
  const { producer, inventory } = world.operator;
  const request = (id: string, app: string, more: object = {}) =>
    producer.launch({ version: 1, instanceId: id, app, ...(app === 'stays' ? { command: staying } : {}), ...more });
  return {
    request,
    async launch(id: string, app: string, more: object = {}): Promise<InstanceRecord> {
      await request(id, app, more);
      return world.ready(id);
    },
    async finished(id: string, app: string, more: object = {}): Promise<InstanceRecord> {
      await request(id, app, more);
      const over = (record: InstanceRecord | undefined) => record?.state === 'failed' || typeof record?.exitCode === 'number';
      const isReady = (record: InstanceRecord | undefined) => over(record) && record?.state !== 'launching';
      return (await world.until(id, isReady)) as InstanceRecord;
    },
    pod: (record: InstanceRecord) => world.cluster.read('pods', record.pod?.name ?? ''),
    events: async (id: string, type: string): Promise<InstanceEvent[]> =>
      (await inventory.events(id, 0, 500)).filter((event) => event.type === type),
    async removed(id: string): Promise<void> {
      await producer.teardown({ version: 1, instanceId: id, force: true });
      await world.gone(id);
    },
  };
}
