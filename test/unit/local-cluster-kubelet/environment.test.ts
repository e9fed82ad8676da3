import { describe, expect, it } from 'vitest';
import { ConfigError, expand, resolveEnvironment } from '../../../src/local-cluster/kubelet/environment.ts';
import type { Pod } from '../../../src/local-cluster/kubelet/pod-types.ts';
import { createStore } from '../../../src/local-cluster/store.ts';

const namespace = 'default';

function world() {
  const store = createStore();
  const put = (resource: string, kind: string, name: string, rest: object) =>
    store.create(resource, { apiVersion: 'v1', kind, metadata: { name, namespace }, ...rest });
  put('configmaps', 'ConfigMap', 'map', { data: { A: 'one', 'b.c': 'two', 'bad=name': 'x' } });
  put('secrets', 'Secret', 'secret', { data: { PASSWORD: Buffer.from('hunter').toString('base64') } });
  put('services', 'Service', 'my-api', { spec: { clusterIP: '10.0.0.7', ports: [{ port: 80, name: 'web' }] } });
  return store;
}

function resolve(container: object, spec: object = {}) {
  const main = { name: 'main', ...container };
  const metadata = { name: 'p', namespace, uid: 'u-1', labels: { app: 'x' }, resourceVersion: '1', creationTimestamp: '' };
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata,
    spec: { enableServiceLinks: false, containers: [main], ...spec },
  } as Pod;
  return resolveEnvironment({ store: world(), pod, container: main, podIP: '10.244.0.9' });
}

describe('$(NAME) in command, args and env', () => {
  it.each([
    ['$(A)/$(B)', 'one/$(B)'],
    ['$$(A) costs $5 and $$', '$(A) costs $5 and $'],
    ['$$$(A)', '$one'],
    ['$(A', '$(A'],
    ['$()', '$()'],
    ['$(toString)', '$(toString)'],
  ])('turns %s into %s', (text, expected) => {
    expect(expand(text, { A: 'one' })).toBe(expected);
  });
});

describe('the environment of a container', () => {
  it('lets env win over envFrom, expands only what stands before, and skips keys that are no names', () => {
    const env = [
      { name: 'LATE', value: '$(EARLY)' },
      { name: 'EARLY', value: 'e' },
      { name: 'A', value: '$(A)!' },
    ];
    const values = resolve({
      envFrom: [{ configMapRef: { name: 'map' } }, { prefix: 'S_', secretRef: { name: 'secret' } }],
      env,
    });
    expect(values).toEqual({ A: 'one!', 'b.c': 'two', S_PASSWORD: 'hunter', LATE: '$(EARLY)', EARLY: 'e' });
  });

  it('reads fields of the Pod and its resources', () => {
    const field = (name: string, fieldPath: string) => ({ name, valueFrom: { fieldRef: { fieldPath } } });
    const env = [
      field('NAME', 'metadata.name'),
      field('LABEL', "metadata.labels['app']"),
      field('IP', 'status.podIP'),
      field('NODE', 'spec.nodeName'),
      { name: 'MEM', valueFrom: { resourceFieldRef: { resource: 'limits.memory', divisor: '1Mi' } } },
      { name: 'CPU', valueFrom: { resourceFieldRef: { resource: 'requests.cpu' } } },
      { name: 'MILLI', valueFrom: { resourceFieldRef: { resource: 'requests.cpu', divisor: '1m' } } },
    ];
    const resources = { limits: { memory: '64Mi' }, requests: { cpu: '100m' } };
    expect(resolve({ env, resources })).toEqual({
      NAME: 'p',
      LABEL: 'x',
      IP: '10.244.0.9',
      NODE: 'local',
      MEM: '64',
      CPU: '1',
      MILLI: '100',
    });
  });

  it.each([
    [{ configMapKeyRef: { name: 'map', key: 'no' } }, "couldn't find key no in ConfigMap default/map"],
    [{ secretKeyRef: { name: 'secret', key: 'no' } }, "couldn't find key no in Secret default/secret"],
    [{ secretKeyRef: { name: 'gone', key: 'no' } }, 'secret "gone" not found'],
  ])('refuses %j', (valueFrom, message) => {
    expect(() => resolve({ env: [{ name: 'X', valueFrom }] })).toThrow(new ConfigError(message));
  });

  it('leaves out what is optional and missing', () => {
    const env = [{ name: 'X', valueFrom: { configMapKeyRef: { name: 'gone', key: 'no', optional: true } } }];
    expect(resolve({ env, envFrom: [{ secretRef: { name: 'gone', optional: true } }] })).toEqual({});
  });

  it('adds service links unless the Pod does not want them', () => {
    expect(resolve({}, { enableServiceLinks: true })).toMatchObject({
      MY_API_SERVICE_HOST: '10.0.0.7',
      MY_API_PORT: 'tcp://10.0.0.7:80',
      MY_API_PORT_80_TCP_ADDR: '10.0.0.7',
      MY_API_SERVICE_PORT_WEB: '80',
    });
    expect(resolve({})).toEqual({});
  });
});
