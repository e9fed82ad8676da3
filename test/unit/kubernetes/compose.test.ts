import { describe, expect, it } from 'vitest';
import { profileSchema } from '../../../src/config/schema.ts';
import { composeClaim, composePod } from '../../../src/kubernetes/compose.ts';
import { keys, specHash } from '../../../src/kubernetes/ownership.ts';
import { composeInput } from './compose-input.ts';

const main = (input = composeInput()) => composePod(input).spec?.containers.find(({ name }) => name === 'agent');
const profileWith = (rest: object) => profileSchema.parse({ workspace: { mode: 'empty_dir' }, ...rest });

describe('composePod', () => {
  it('makes exactly this Pod', () => {
    expect(composePod(composeInput())).toMatchSnapshot();
  });

  it('is the same for equal input, leaves the template alone, and its hash follows the spec', () => {
    const input = composeInput();
    const before = structuredClone(input.template);
    const pod = composePod(input);
    expect(composePod(input)).toEqual(pod);
    expect(input.template).toEqual(before);
    expect(pod.metadata?.annotations?.[keys.specHash]).toBe(specHash(pod));
    const other = composePod(composeInput({ resources: { limits: { memory: '4Gi' } } }));
    expect(other.metadata?.annotations?.[keys.specHash]).not.toBe(specHash(pod));
    const relabelled = composePod(
      composeInput({ labels: { 'user.windlass.dev/x': 'y' }, generation: 8, nonce: 'cd'.repeat(32) }),
    );
    expect(relabelled.metadata?.annotations?.[keys.specHash]).toBe(specHash(pod));
  });

  it('lets nobody set what says whose the Pod is', () => {
    const mine = { [keys.owner]: 'mallory', 'app.kubernetes.io/managed-by': 'mallory', [keys.egress]: 'internet' };
    const input = composeInput({
      labels: mine,
      annotations: { [keys.nonce]: 'mine' },
      profile: profileWith({ egress: 'none' }),
    });
    const { labels, annotations } = composePod(input).metadata ?? {};
    expect(labels).toMatchObject({ [keys.owner]: 'alice', 'app.kubernetes.io/managed-by': 'windlass', [keys.egress]: 'none' });
    expect(annotations?.[keys.nonce]).toBe('ab'.repeat(32));
  });

  it("merges the request's resources over the template's, in the main container only", () => {
    const input = composeInput({ resources: { requests: { memory: '1Gi' }, limits: { memory: '4Gi', cpu: '2' } } });
    expect(main(input)?.resources).toEqual({ requests: { cpu: '250m', memory: '1Gi' }, limits: { memory: '4Gi', cpu: '2' } });
    expect(composePod(input).spec?.containers.find(({ name }) => name === 'proxy')?.resources).toBeUndefined();
  });

  it("lowers what the template requests to the request's limit, which the cluster would refuse otherwise", () => {
    const input = composeInput({ resources: { limits: { cpu: '100m', memory: '64Mi' } } });
    expect(main(input)?.resources).toEqual({ requests: { cpu: '100m' }, limits: { cpu: '100m', memory: '64Mi' } });
  });

  it("turns granted secrets into references, in an order that does not depend on the request's", () => {
    const refs = { ZED: { secret: 'db', key: 'url' }, ALPHA: { secret: 'db', key: 'user' } };
    const env = main(composeInput({ secretRefs: refs }))?.env ?? [];
    expect(env.slice(1, 3)).toEqual([
      { name: 'ALPHA', valueFrom: { secretKeyRef: { name: 'db', key: 'user' } } },
      { name: 'ZED', valueFrom: { secretKeyRef: { name: 'db', key: 'url' } } },
    ]);
  });

  it('adds the startup probe only when something prepares, and lets it outlast every budget', () => {
    expect(main(composeInput({ prepares: false }))?.startupProbe).toBeUndefined();
    const profile = profileWith({ budgets: { total: 4000 } });
    const probe = main(composeInput({ profile }))?.startupProbe;
    expect((probe?.failureThreshold ?? 0) * (probe?.periodSeconds ?? 0)).toBeGreaterThan(4000);
  });

  it("keeps an image's own entry point when there is no agent", () => {
    const input = composeInput({ agent: undefined, env: { B: '2', A: '1' } });
    const container = main(input);
    expect(container?.command).toBeUndefined();
    expect(container?.ports).toBeUndefined();
    expect(container?.env).toEqual([
      { name: 'LANG', value: 'C.UTF-8' },
      { name: 'A', value: '1' },
      { name: 'B', value: '2' },
    ]);
    expect(composePod(input).spec?.volumes?.map(({ name }) => name)).toEqual(['cache', 'windlass-workspace']);
  });

  it('gives an empty directory with its limit when there is no claim', () => {
    const profile = profileWith({ workspace: { mode: 'empty_dir', sizeLimit: '1Gi' } });
    const volumes = composePod(composeInput({ profile, workspaceClaim: undefined })).spec?.volumes;
    expect(volumes).toContainEqual({ name: 'windlass-workspace', emptyDir: { sizeLimit: '1Gi' } });
  });

  it("copies the runtime first for delivery init_image, under the main container's constraints", () => {
    const profile = profileWith({ agent: { delivery: 'init_image', image: 'node:22' } });
    const [copier] = composePod(composeInput({ profile })).spec?.initContainers ?? [];
    expect(copier).toMatchObject({
      name: 'windlass-runtime',
      image: 'node:22',
      securityContext: { allowPrivilegeEscalation: false },
      resources: { limits: { memory: '2Gi' } },
      volumeMounts: [{ name: 'windlass-opt', mountPath: '/opt/windlass' }],
    });
    expect(copier?.command?.join(' ')).not.toMatch(/\$\(/);
  });
});

describe('composeClaim', () => {
  it('asks for a file system, and for a class only when one is configured', () => {
    const claim = composeClaim(composeInput());
    expect(claim.metadata?.name).toBe('windlass-0123456789abcdef0123-workspace');
    expect(claim.spec).toEqual({
      accessModes: ['ReadWriteOnce'],
      volumeMode: 'Filesystem',
      resources: { requests: { storage: '10Gi' } },
    });
    const profile = profileWith({ workspace: { mode: 'managed_pvc', size: '1Gi', storageClass: 'fast' } });
    expect(composeClaim(composeInput({ profile })).spec?.storageClassName).toBe('fast');
  });

  it('is refused for a workspace that has no claim of ours', () => {
    expect(() => composeClaim(composeInput({ profile: profileWith({}) }))).toThrow(
      expect.objectContaining({ code: 'invariant_broken' }),
    );
  });
});
