import { afterAll, describe, expect, it } from 'vitest';
import { openTarget, podOf } from './target.ts';

const target = await openTarget();
const names = async (path: string) =>
  (await target.call('GET', `${target.home}/${path}`)).body.items.map(
    ({ metadata }: { metadata: { name: string } }) => metadata.name,
  );
const selected = (selector: string) => `fieldSelector=${encodeURIComponent(selector)}`;
afterAll(() => target.close());

describe('field selectors', () => {
  it('find by name, phase, node and restart policy', async () => {
    await target.create('pods', podOf(target, 'runs', 'exec sleep 1000'));
    await target.create('pods', podOf(target, 'waits', 'true', { nodeSelector: { no: 'node' }, restartPolicy: 'Always' }));
    const { spec } = await target.until('pods/runs', ({ status }) => status.phase === 'Running');
    expect(await names(`pods?${selected('metadata.name=waits')}`)).toEqual(['waits']);
    expect(await names(`pods?${selected('status.phase=Running')}`)).toEqual(['runs']);
    expect(await names(`pods?${selected('status.phase!=Running')}`)).toEqual(['waits']);
    expect(await names(`pods?${selected(`spec.nodeName=${spec.nodeName}`)}`)).toEqual(['runs']);
    expect(await names(`pods?${selected('spec.nodeName=')}`)).toEqual(['waits']);
    expect(await names(`pods?${selected('spec.restartPolicy=Always,metadata.name=waits')}`)).toEqual(['waits']);
  });

  it('find events by what they are about', async () => {
    const { metadata } = await target.until('pods/runs', () => true);
    await target.event(metadata.uid, 'Started');
    const about = `involvedObject.kind=Pod,involvedObject.name=runs,involvedObject.uid=${metadata.uid},reason=Started,type=Normal`;
    expect(await names(`events?${selected(about)}`)).toHaveLength(1);
    expect(await names(`events?${selected(`${about},involvedObject.namespace=default`)}`)).toEqual([]);
  });

  it('are refused where the kind does not know the field', async () => {
    const { code, body } = await target.call('GET', `${target.home}/configmaps?${selected('data.x=1')}`);
    expect([code, body.reason]).toEqual([400, 'BadRequest']);
    expect(body.message).toBe('"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"');
    const pod = await target.call('GET', `${target.home}/pods?${selected('spec.hostname=x')}`);
    expect([pod.code, pod.body.message]).toEqual([400, 'field label not supported: spec.hostname']);
    const bad = await target.call('GET', `${target.home}/configmaps?labelSelector=${encodeURIComponent('a in (')}`);
    expect([bad.code, bad.body.reason]).toEqual([400, 'BadRequest']);
  });
});
