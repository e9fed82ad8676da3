import { afterAll, describe, expect, it } from 'vitest';
import { merge, strategic } from '../support/kube-http.ts';
import { claimOf, openTarget, podOf } from './target.ts';

const target = await openTarget();
const change = (path: string, body: object, type = merge) => target.call('PATCH', `${target.home}/${path}`, body, type);
afterAll(() => target.close());

describe('what may not change', () => {
  it('of an immutable ConfigMap: its data', async () => {
    await target.create('configmaps', { metadata: { name: 'fixed' }, data: { a: '1' }, immutable: true });
    const { code, body } = await change('configmaps/fixed', { data: { a: '2' } });
    expect(code).toBe(422);
    expect(body.message).toBe('ConfigMap "fixed" is invalid: data: Forbidden: field is immutable when `immutable` is set');
    expect((await change('configmaps/fixed', { immutable: false })).code).toBe(422);
    expect((await change('configmaps/fixed', { metadata: { labels: { l: 'v' } } })).code).toBe(200);
  });

  it('of a Pod: nearly everything but images and metadata', async () => {
    await target.create('pods', podOf(target, 'p', 'true', { nodeSelector: { no: 'node' } }));
    const { code, body } = await change('pods/p', { spec: { restartPolicy: 'Always' } });
    expect([code, body.reason]).toEqual([422, 'Invalid']);
    expect(body.message).toMatch(
      /^Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers\[\*\].image`/,
    );
    const command = { spec: { containers: [{ name: 'main', command: ['sh'] }] } };
    expect((await change('pods/p', command, strategic)).code).toBe(422);
    const image = await change('pods/p', { spec: { containers: [{ name: 'main', image: 'node:local' }] } }, strategic);
    expect([image.code, image.body.metadata.generation]).toEqual([200, 2]);
    expect((await change('pods/p', { metadata: { annotations: { a: 'b' } } })).body.metadata.generation).toBe(2);
  });

  it("of a claim: its spec, but for a bound one's size", async () => {
    await target.create('persistentvolumeclaims', claimOf('c', target.classes.firstConsumer));
    const { code, body } = await change('persistentvolumeclaims/c', { spec: { accessModes: ['ReadOnlyMany'] } });
    expect(code).toBe(422);
    expect(body.message).toMatch(
      /^PersistentVolumeClaim "c" is invalid: spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims/,
    );
    expect((await change('persistentvolumeclaims/c', { metadata: { labels: { l: 'v' } } })).code).toBe(200);
  });

  it("of everything: uid, time and version are the server's", async () => {
    const made = await target.create('configmaps', { metadata: { name: 'meta' } });
    const body = { metadata: { creationTimestamp: '2000-01-01T00:00:00Z', generation: 7 } };
    const reply = await change('configmaps/meta', body);
    expect(reply.body.metadata.creationTimestamp).toBe(made.metadata.creationTimestamp);
  });
});
