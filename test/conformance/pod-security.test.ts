import { afterAll, describe, expect, it } from 'vitest';
import { openTarget, podOf } from './target.ts';

const target = await openTarget({ 'pod-security.kubernetes.io/enforce': 'restricted' });
const pods = `${target.home}/pods`;
const secure = { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } };
const confined = { securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } } };
afterAll(() => target.close());

describe('a restricted namespace', () => {
  it('refuses a plain Pod and names everything that is wrong with it', async () => {
    const { code, body } = await target.call('POST', pods, podOf(target, 'plain', 'true'));
    expect([code, body.reason]).toEqual([403, 'Forbidden']);
    expect(body.message).toBe(
      'pods "plain" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "main" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "main" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "main" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "main" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")',
    );
    await expect(target.cluster.create('pods', podOf(target, 'plain', 'true'))).rejects.toMatchObject({ code: 'policy_denied' });
  });

  it.each([
    [
      'privileged',
      {},
      { securityContext: { ...confined.securityContext, privileged: true, allowPrivilegeEscalation: true } },
      'privileged (container "main" must not set securityContext.privileged=true)',
    ],
    [
      'hostPath',
      { volumes: [{ name: 'h', hostPath: { path: '/tmp' } }] },
      confined,
      'restricted volume types (volume "h" uses restricted volume type "hostPath")',
    ],
    ['hostNetwork', { hostNetwork: true }, confined, 'host namespaces (hostNetwork=true)'],
    ['uid 0', { securityContext: { ...secure, runAsUser: 0 } }, confined, 'runAsUser=0 (pod must not set runAsUser=0)'],
    [
      'added capabilities',
      {},
      { securityContext: { ...confined.securityContext, capabilities: { drop: ['ALL'], add: ['SYS_ADMIN'] } } },
      'unrestricted capabilities (container "main" must not include "SYS_ADMIN" in securityContext.capabilities.add)',
    ],
  ])('refuses %s', async (_what, spec, container, words) => {
    const body = podOf(target, 'bad', 'true', { securityContext: secure, ...spec }, container);
    const reply = await target.call('POST', pods, body);
    expect(reply.code).toBe(403);
    expect(reply.body.message).toContain(words);
  });

  it('runs a Pod that keeps to the rules, as its user', async () => {
    await target.create('pods', podOf(target, 'good', 'id -u; exec sleep 1000', { securityContext: secure }, confined));
    await target.until('pods/good', ({ status }) => status.phase === 'Running');
    const { stdout } = await target.cluster.exec({ pod: 'good', container: 'main' }, ['id', '-u']);
    // Without a sandbox there is one user: whoever started the cluster.
    expect(stdout).toBe(`${target.sandboxed ? 1000 : process.getuid?.()}\n`);
  });
});
