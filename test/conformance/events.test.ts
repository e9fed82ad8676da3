import { afterAll, expect, it } from 'vitest';
import type { KubeObject } from '../../src/local-cluster/types.ts';
import { openTarget, podOf } from './target.ts';

const target = await openTarget();
afterAll(() => target.close());

it('the life of a Pod is told in events, by who did what', async () => {
  const { metadata } = await target.create('pods', podOf(target, 'told', 'exec sleep 1000'));
  const started = await target.event(metadata.uid, 'Started');
  expect(started).toMatchObject({
    type: 'Normal',
    count: 1,
    involvedObject: {
      kind: 'Pod',
      name: 'told',
      namespace: target.namespace,
      uid: metadata.uid,
      fieldPath: 'spec.containers{main}',
    },
    source: { component: 'kubelet' },
  });
  expect(started.firstTimestamp).toMatch(/Z$/);
  await target.call('DELETE', `${target.home}/pods/told`);
  await target.event(metadata.uid, 'Killing');
  const { body } = await target.call('GET', `${target.home}/events?fieldSelector=involvedObject.uid%3D${metadata.uid}`);
  const told = (body.items as KubeObject[]).map(({ reason, message }) => `${reason}: ${message}`);
  expect(told).toEqual(
    expect.arrayContaining([
      expect.stringMatching(`^Scheduled: Successfully assigned ${target.namespace}/told to `),
      'Created: Created container: main',
      'Started: Started container main',
      'Killing: Stopping container main',
    ]),
  );
  expect((await target.cluster.events(metadata.uid)).map(({ reason }) => reason)).toContain('Started');
});
