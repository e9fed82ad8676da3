import { afterAll, describe, expect, it } from 'vitest';
import { openTarget, podOf } from './target.ts';

const target = await openTarget();
const pods = `${target.home}/pods`;
const running = async (name: string, script: string, spec = {}) => {
  await target.create('pods', podOf(target, name, script, spec));
  return target.until(`pods/${name}`, ({ status }) => status.phase === 'Running');
};
afterAll(() => target.close());

describe('deleting a Pod', () => {
  it('marks it, lets its process end, and then removes it', async () => {
    const script = "trap 'exit 0' TERM; while true; do sleep 0.1; done";
    const pod = await running('graceful', script, { terminationGracePeriodSeconds: 20 });
    const watch = await target.watch(`${pods}?watch=1&fieldSelector=metadata.name%3Dgraceful`);
    const { code, body } = await target.call('DELETE', `${pods}/graceful`, { preconditions: { uid: pod.metadata.uid } });
    expect(code).toBe(200);
    expect(body).toMatchObject({ kind: 'Pod', metadata: { deletionGracePeriodSeconds: 20 } });
    expect(Date.parse(body.metadata.deletionTimestamp) - Date.now()).toBeGreaterThan(15_000);
    const { object } = await watch.until(({ type }) => type === 'DELETED');
    watch.stop();
    expect(object.metadata.deletionGracePeriodSeconds).toBe(0);
    expect(object.status.containerStatuses[0].state.terminated).toMatchObject({ exitCode: 0, reason: 'Completed' });
    expect((await target.call('GET', `${pods}/graceful`)).code).toBe(404);
  });

  it('kills what does not end in its grace', async () => {
    await running('stubborn', "trap '' TERM; while true; do sleep 0.1; done");
    const watch = await target.watch(`${pods}?watch=1&fieldSelector=metadata.name%3Dstubborn`);
    await target.call('DELETE', `${pods}/stubborn`);
    const { object } = await watch.until(({ type }) => type === 'DELETED');
    watch.stop();
    expect(object.status.containerStatuses[0].state.terminated).toMatchObject({ exitCode: 137 });
  });

  it('a second time can shorten the grace, not lengthen it', async () => {
    await running('twice', "trap '' TERM; while true; do sleep 0.1; done", { terminationGracePeriodSeconds: 300 });
    const first = await target.call('DELETE', `${pods}/twice`);
    const longer = await target.call('DELETE', `${pods}/twice`, { gracePeriodSeconds: 600 });
    expect(longer.body.metadata.deletionTimestamp).toBe(first.body.metadata.deletionTimestamp);
    const shorter = await target.call('DELETE', `${pods}/twice`, { gracePeriodSeconds: 1 });
    expect(shorter.body.metadata.deletionGracePeriodSeconds).toBe(1);
    expect(Date.parse(shorter.body.metadata.deletionTimestamp)).toBeLessThan(Date.parse(first.body.metadata.deletionTimestamp));
    // Whether the node still heeds it is its own affair (README): only grace 0 is sure to end it.
    await target.call('DELETE', `${pods}/twice`, { gracePeriodSeconds: 0 });
    await target.gone('pods/twice');
  });

  it('with grace 0 says gone at once', async () => {
    await running('forced', "trap '' TERM; while true; do sleep 0.1; done", { terminationGracePeriodSeconds: 300 });
    expect((await target.call('DELETE', `${pods}/forced`, { gracePeriodSeconds: 0 })).code).toBe(200);
    expect((await target.call('GET', `${pods}/forced`)).code).toBe(404);
  });

  it('that has no node or has ended removes it at once', async () => {
    await target.create('pods', podOf(target, 'waits', 'true', { nodeSelector: { no: 'node' } }));
    expect((await target.call('DELETE', `${pods}/waits`)).body.metadata.deletionGracePeriodSeconds).toBe(0);
    expect((await target.call('GET', `${pods}/waits`)).code).toBe(404);
    await target.create('pods', podOf(target, 'ended', 'true', { terminationGracePeriodSeconds: 300 }));
    await target.until('pods/ended', ({ status }) => status.phase === 'Succeeded');
    await target.call('DELETE', `${pods}/ended`);
    await target.gone('pods/ended', 5);
  });

  it('a whole selection deletes each of it', async () => {
    for (const name of ['many-1', 'many-2']) {
      const body = podOf(target, name, 'true', { nodeSelector: { no: 'node' } });
      await target.create('pods', { ...body, metadata: { name, labels: { many: 'yes' } } });
    }
    const { code, body } = await target.call('DELETE', `${pods}?labelSelector=many`);
    expect([code, body.kind, body.items.length]).toEqual([200, 'PodList', 2]);
    expect((await target.call('GET', `${pods}?labelSelector=many`)).body.items).toEqual([]);
  });
});
