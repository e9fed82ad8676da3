import { afterAll, describe, expect, it } from 'vitest';
import { openTarget, podOf } from './target.ts';

const target = await openTarget();
const maps = `${target.home}/configmaps`;
afterAll(() => target.close());

describe('creating and reading', () => {
  it('gives uid, version and time', async () => {
    const made = await target.create('configmaps', { metadata: { name: 'a' }, data: { k: 'v' } });
    expect(made.metadata.uid).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/);
    expect(made.metadata.creationTimestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    const read = await target.call('GET', `${maps}/a`);
    expect(read.body.metadata.resourceVersion).toBe(made.metadata.resourceVersion);
    expect(read.body.data).toEqual({ k: 'v' });
  });

  it('answers a taken name with AlreadyExists', async () => {
    await target.create('configmaps', { metadata: { name: 'taken' } });
    const { code, body } = await target.call('POST', maps, { metadata: { name: 'taken' } });
    expect(code).toBe(409);
    expect(body).toEqual({
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: 'configmaps "taken" already exists',
      reason: 'AlreadyExists',
      details: { name: 'taken', kind: 'configmaps' },
      code: 409,
    });
  });

  it('answers a missing object with NotFound', async () => {
    for (const [method, body] of [
      ['GET', undefined],
      ['DELETE', undefined],
      ['PUT', { metadata: { name: 'nope' } }],
    ] as const) {
      const reply = await target.call(method, `${maps}/nope`, body);
      expect(reply.body).toEqual({
        kind: 'Status',
        apiVersion: 'v1',
        metadata: {},
        status: 'Failure',
        message: 'configmaps "nope" not found',
        reason: 'NotFound',
        details: { name: 'nope', kind: 'configmaps' },
        code: 404,
      });
    }
  });

  it('names a namespace that is missing, not the object', async () => {
    const absent = `${target.namespace}-absent`;
    const { code, body } = await target.call('POST', `/api/v1/namespaces/${absent}/pods`, podOf(target, 'p', 'true'));
    expect([code, body.reason, body.message]).toEqual([404, 'NotFound', `namespaces "${absent}" not found`]);
    expect(body.details).toEqual({ name: absent, kind: 'namespaces' });
    expect((await target.call('GET', `/api/v1/namespaces/${absent}/pods`)).body.items).toEqual([]);
  });

  it('refuses names and shapes that cannot be', async () => {
    const named = await target.call('POST', maps, { metadata: { name: 'A_' } });
    expect([named.code, named.body.reason]).toEqual([422, 'Invalid']);
    expect(named.body.message).toMatch(
      /^ConfigMap "A_" is invalid: metadata\.name: Invalid value: "A_": a lowercase RFC 1123 subdomain/,
    );
    const nameless = await target.call('POST', maps, { metadata: {} });
    expect(nameless.body.message).toContain('name or generateName is required');
    const empty = await target.call('POST', `${target.home}/pods`, { metadata: { name: 'p' } });
    expect([empty.code, empty.body.message]).toEqual([422, 'Pod "p" is invalid: spec.containers: Required value']);
    const other = await target.call('POST', maps, { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'x' } });
    expect([other.code, other.body.reason]).toEqual([400, 'BadRequest']);
    const broken = await target.call('POST', maps, '{"kind":');
    expect([broken.code, broken.body.reason]).toEqual([400, 'BadRequest']);
    const elsewhere = await target.call('POST', maps, { metadata: { name: 'x', namespace: 'default' } });
    expect([elsewhere.code, elsewhere.body.message]).toEqual([
      400,
      'the namespace of the provided object does not match the namespace sent on the request',
    ]);
    const versioned = await target.call('POST', maps, { metadata: { name: 'v', resourceVersion: '1' } });
    expect(versioned.body.message).toBe('resourceVersion should not be set on objects to be created');
  });

  it('counts a Pod with a container name that cannot be as invalid, with the field', async () => {
    const body = podOf(target, 'bad', 'true', {}, { name: 'Not A Name' });
    const reply = await target.call('POST', `${target.home}/pods`, body);
    expect(reply.code).toBe(422);
    expect(reply.body.details.causes[0].field).toBe('spec.containers[0].name');
  });
});
