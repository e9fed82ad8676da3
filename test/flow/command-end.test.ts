import { afterAll, beforeAll, expect, it } from 'vitest';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { sweepReport } from '../support/recover-flow.ts';
import { resumeSteps } from '../support/resume-steps.ts';
import { sweepsByHand } from '../support/sweeps-by-hand.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: EmbeddedCluster;
let world: World;
beforeAll(async () => {
  embedded = await startCluster();
  world = await createWorld({
    kubeconfig: embedded.kubeconfig,
    namespace: 'default',
    image: 'node:24',
    config: { sweeps: sweepsByHand },
  });
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
});

async function ended(id: string): Promise<void> {
  const access = await world.operator.connectAgent(id);
  const code = async () => (await access.client.instance())?.command?.exitCode;
  await expect.poll(code, { timeout: 20_000 }).not.toBeNull();
  await access.close();
}

it('the end of a command is told once, with its exit code; one that runs is not told of', async () => {
  const steps = resumeSteps(world);
  await steps.launch('ends', { command: ['sh', '-c', 'exit 7'] });
  await steps.launch('runs', { command: ['sleep', '600'] });
  await steps.launch('has none');
  await ended('ends');
  const report = await sweepReport(world, 'expired');
  expect(report?.entries.filter(({ rule }) => rule === 'command_ended')).toMatchObject([
    { name: 'ends', action: 'done', evidence: { exitCode: 7 } },
  ]);
  expect(await steps.events('ends', 'command.exited')).toMatchObject([{ exitCode: 7 }]);
  expect((await world.operator.inventory.read('ends'))?.exitCode).toBe(7);
  const again = await sweepReport(world, 'expired');
  expect(again?.entries.filter(({ rule }) => rule === 'command_ended')).toEqual([]);
  for (const id of ['runs', 'has none']) {
    expect(await steps.events(id, 'command.exited')).toEqual([]);
    expect((await world.operator.inventory.read(id))?.exitCode).toBeNull();
  }
  expect(await steps.events('ends', 'command.exited')).toHaveLength(1);
});

it('a reconnect after the end of its command takes nothing off the lifetime of an instance, and tells no end', async () => {
  const steps = resumeSteps(world);
  await steps.launch('goes on', { command: ['true'], lifetime: { maxSeconds: 86_400 } });
  await ended('goes on');
  await sweepReport(world, 'expired');
  const before = await world.operator.inventory.read('goes on');
  expect(before?.exitCode).toBe(0);
  expect((await steps.reconnected('goes on')).expiresAt).toBe(before?.expiresAt);
  expect(await steps.events('goes on', 'command.exited')).toHaveLength(1);
});
