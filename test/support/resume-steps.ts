import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { expect } from 'vitest';
import type { EffectMessage } from '../../src/effects.ts';
import type { InstanceEvent, InstanceRecord, StageRecord } from '../../src/inventory/types.ts';
import type { World } from './world.ts';

/** What the reconnect suites do to an instance, the same on every cluster. */
export function resumeSteps(world: World) {
  const { producer, inventory } = world.operator;
  return {
    async launch(id: string, more: object = {}): Promise<InstanceRecord> {
      await producer.launch({ version: 1, instanceId: id, profile: 'node', ...more });
      return world.ready(id);
    },
    async events(id: string, type: string): Promise<InstanceEvent[]> {
      return (await inventory.events(id, 0, 500)).filter((event) => event.type === type);
    },
    deletePod: (record: InstanceRecord, graceSeconds?: number) =>
      world.cluster.remove('pods', record.pod?.name ?? '', {
        uid: record.pod?.uid ?? '',
        ...(graceSeconds === undefined ? {} : { graceSeconds }),
      }),
    lost: async (id: string) => (await world.until(id, (record) => record?.state === 'lost')) as InstanceRecord,
    /** Kills the agent from inside, as an OOM would; `reboot` empties the memory volume first, as a node that starts anew does. */
    async killAgent(id: string, reboot = false): Promise<void> {
      const wipe = reboot ? 'rm -rf "${WINDLASS_RUN_DIR:-/run/windlass}"/*; ' : '';
      await expect(world.exec(id, ['/bin/sh', '-c', `${wipe}kill -9 $PPID`])).rejects.toMatchObject({ code: 'exec_lost' });
    },
    restarted: async (id: string) => (await world.until(id, (record) => record?.restartCount === 1)) as InstanceRecord,
    /** A ready instance stays ready meanwhile: its last stage tells that the run is over. */
    async reconnected(id: string): Promise<InstanceRecord> {
      await producer.reconnect(id);
      const over = ({ name, state }: StageRecord) => name === 'ready' && state === 'done';
      const ended = (record: InstanceRecord | undefined) =>
        record?.state === 'ready' && record.run > 1 && record.stages.some(over);
      return (await world.until(id, ended)) as InstanceRecord;
    },
  };
}

/** The embedded cluster ends quicker without Pods, and a test must not see those of the one before. Workers are to be stopped. */
export async function removePods(world: World): Promise<void> {
  const pods = async () => {
    const left = [];
    const selector = `windlass.dev/installation=${world.loaded.config.installation}`;
    for await (const page of world.cluster.listMetadata('pods', selector)) left.push(...page.items);
    return left;
  };
  for (const { name = '', uid = '' } of await pods()) await world.cluster.remove('pods', name, { uid, graceSeconds: 0 });
  await expect.poll(pods).toEqual([]);
}

/** Names of the side effects of this process, finished or not. */
export function recordEffects(): { stop(): string[] } {
  const names: string[] = [];
  const listener = (message: unknown) => {
    const { phase, name } = message as EffectMessage;
    if (phase === 'before') names.push(name);
  };
  subscribe('windlass:effect', listener);
  return {
    stop() {
      unsubscribe('windlass:effect', listener);
      return names;
    },
  };
}
