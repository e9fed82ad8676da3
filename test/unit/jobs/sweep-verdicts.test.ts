import type { V1Pod } from '@kubernetes/client-node';
import { describe, expect, it } from 'vitest';
import type { CreateRecord, InstanceRecord } from '../../../src/inventory/types.ts';
import { judgeConfigMap, type MapFacts, mapsNamedBy } from '../../../src/jobs/sweeps/config-maps.ts';
import { type ExpiryFacts, judgeExpired } from '../../../src/jobs/sweeps/expired.ts';
import { type GhostFacts, judgeGhost } from '../../../src/jobs/sweeps/ghosts.ts';
import { jobOf, judgeStuck, type StuckFacts } from '../../../src/jobs/sweeps/stuck.ts';

const record = (fields: Partial<InstanceRecord> = {}): InstanceRecord =>
  ({
    hash: 'a'.repeat(20),
    generation: 100,
    run: 1,
    state: 'ready',
    intent: 'present',
    removeUpTo: 0,
    creates: {},
    pod: { name: 'p', uid: 'pod-1', node: '', ip: '', createdByGeneration: 100 },
    workspace: { mode: 'managed_pvc', claimName: 'c', claimUid: 'claim-1', created: true, createdByGeneration: 100 },
    lifetime: { maxSeconds: 100, idleSeconds: 0, onIdle: 'suspend', onExpire: 'teardown' },
    failure: null,
    readyAt: 0,
    updatedAt: 0,
    expiresAt: 0,
    ...fields,
  }) as InstanceRecord;
const bare = { mode: 'empty_dir', claimName: '', claimUid: '', created: false, createdByGeneration: 0 } as const;
const old = { before: true, ageSeconds: 1000 };

describe('the verdict on a record whose objects were looked for', () => {
  const facts = (fields: Partial<GhostFacts>): GhostFacts => ({
    record: record(),
    pod: false,
    claim: false,
    kept: true,
    sighting: old,
    graceSeconds: 600,
    ...fields,
  });
  it.each<[string, Partial<GhostFacts>, string, string]>([
    ['its Pod is there', { pod: true }, 'keep', 'pod_is_there'],
    ['ready, the claim is there, seen once', { claim: true, sighting: { before: false, ageSeconds: 1000 } }, 'watch', 'pod_gone'],
    [
      'ready, the claim is there, seen twice, young',
      { claim: true, sighting: { before: true, ageSeconds: 1 } },
      'mark_lost',
      'pod_gone',
    ],
    ['ready, nothing is there, young', { sighting: { before: true, ageSeconds: 599 } }, 'watch', 'nothing_left'],
    ['ready, nothing is there, seen once', { sighting: { before: false, ageSeconds: 1000 } }, 'watch', 'nothing_left'],
    ['ready, nothing is there', {}, 'teardown', 'nothing_left'],
    ['an empty directory went with its Pod', { record: record({ workspace: bare }) }, 'teardown', 'nothing_left'],
    ['finished, its Pod was collected', { record: record({ exitCode: 0, workspace: bare }) }, 'keep', 'finished'],
    [
      'its command has ended, its Pod and its agent are gone',
      { record: record({ exitCode: 0, agent: { id: 'x', port: 8765, transport: 'exec', state: 'healthy' } }), claim: true },
      'mark_lost',
      'pod_gone',
    ],
    ['lost, the claim is there', { record: record({ state: 'lost', pod: null }), claim: true }, 'keep', 'workspace_is_there'],
    [
      'lost, the claim is not marked',
      { record: record({ state: 'lost', pod: null }), claim: true, kept: false },
      'settle',
      'claim_not_marked',
    ],
    ['lost, the claim is gone too', { record: record({ state: 'lost', pod: null }) }, 'teardown', 'nothing_left'],
    [
      'suspended, the claim is there',
      { record: record({ state: 'suspended', pod: null }), claim: true },
      'keep',
      'workspace_is_there',
    ],
    ['suspended, the claim is gone', { record: record({ state: 'suspended', pod: null }) }, 'teardown', 'nothing_left'],
    ['a launch has begun meanwhile', { record: record({ state: 'launching' }) }, 'keep', 'in_other_hands'],
  ])('%s', (_name, given, verdict, rule) => {
    expect(judgeGhost(facts(given))).toMatchObject({ verdict, rule });
  });
});

describe('the verdict on a record’s time', () => {
  const hour = 3_600_000;
  const now = 100 * hour;
  const facts = (fields: Partial<ExpiryFacts>): ExpiryFacts => ({
    record: record(),
    now,
    idleFrom: undefined,
    warned: false,
    warnSeconds: 600,
    failedSeconds: 3600,
    ...fields,
  });
  const suspend = { maxSeconds: 1, idleSeconds: 3600, onIdle: 'suspend', onExpire: 'suspend' };
  it.each<[string, Partial<ExpiryFacts>, string, string]>([
    ['has no end', {}, 'keep', 'in_time'],
    ['ends later', { record: record({ expiresAt: now + hour }) }, 'keep', 'in_time'],
    ['ends soon', { record: record({ expiresAt: now + 600_000 }) }, 'warn', 'ends_soon'],
    ['ends soon, and its user knows', { record: record({ expiresAt: now + 1000 }), warned: true }, 'keep', 'user_was_told'],
    ['is over', { record: record({ expiresAt: now }) }, 'teardown', 'lifetime_over'],
    ['is over, lost', { record: record({ expiresAt: now, state: 'lost' }) }, 'teardown', 'lifetime_over'],
    ['is over, to be suspended', { record: record({ expiresAt: now, lifetime: suspend }) }, 'suspend', 'lifetime_over'],
    [
      'is over, nothing to suspend to',
      { record: record({ expiresAt: now, lifetime: suspend, workspace: bare }) },
      'teardown',
      'lifetime_over',
    ],
    [
      'suspended too long',
      { record: record({ state: 'suspended', expiresAt: now, lifetime: suspend }) },
      'teardown',
      'suspended_too_long',
    ],
    ['suspended', { record: record({ state: 'suspended', expiresAt: now + hour }) }, 'keep', 'in_time'],
    ['failed a while ago', { record: record({ state: 'failed', updatedAt: now - hour }) }, 'teardown', 'failed_kept_long_enough'],
    ['failed just now', { record: record({ state: 'failed', updatedAt: now - hour + 1 }) }, 'keep', 'failed_kept'],
    [
      'idle too long',
      { record: record({ expiresAt: now + hour, lifetime: suspend }), idleFrom: now - hour },
      'suspend',
      'idle_too_long',
    ],
    [
      'idle, but not for long',
      { record: record({ expiresAt: now + hour, lifetime: suspend }), idleFrom: now - hour + 1 },
      'keep',
      'in_time',
    ],
    ['activity not known', { record: record({ expiresAt: now + hour, lifetime: suspend }) }, 'keep', 'in_time'],
    ['idle, where idleness does not count', { record: record({ expiresAt: now + hour }), idleFrom: 0 }, 'keep', 'in_time'],
    ['a new launch is under way', { record: record({ state: 'launching', expiresAt: 1 }) }, 'keep', 'in_other_hands'],
    ['is being removed', { record: record({ state: 'removing', expiresAt: 1 }) }, 'keep', 'in_other_hands'],
  ])('%s', (_name, given, verdict, rule) => {
    expect(judgeExpired(facts(given))).toMatchObject({ verdict, rule });
  });
});

describe('the verdict on a half-way record', () => {
  const intent = (fields: Partial<CreateRecord>): CreateRecord => ({
    kind: 'pods',
    name: 'p',
    nonce: 'n',
    generation: 100,
    sentAt: 0,
    open: true,
    ...fields,
  });
  const facts = (fields: Partial<StuckFacts>): StuckFacts => ({
    record: record({ state: 'launching' }),
    held: false,
    job: 'missing',
    now: 100_000,
    sighting: old,
    graceSeconds: 600,
    ...fields,
  });
  const failure = { code: 'invariant_broken', message: 'm' } as InstanceRecord['failure'];
  it.each<[string, Partial<StuckFacts>, string, string]>([
    ['somebody holds it', { held: true }, 'keep', 'somebody_is_on_it'],
    ['its job waits in the queue', { job: 'open' }, 'keep', 'its_job_is_queued'],
    ['its job is lost, young', { sighting: { before: true, ageSeconds: 1 } }, 'watch', 'job_lost'],
    ['its job is lost, seen once', { sighting: { before: false, ageSeconds: 1000 } }, 'watch', 'job_lost'],
    ['its job is lost', {}, 'requeue', 'job_lost'],
    ['its job has ended', { job: 'ended' }, 'requeue', 'job_ended'],
    [
      'a removal that gave up',
      { record: record({ state: 'cleanup_pending', intent: 'absent' }), job: 'ended' },
      'requeue',
      'job_ended',
    ],
    ['a broken rule', { record: record({ state: 'cleanup_pending', failure }), job: 'ended' }, 'report', 'needs_a_person'],
    [
      'a broken rule, its removal was asked for',
      { record: record({ state: 'cleanup_pending', intent: 'absent', failure }) },
      'requeue',
      'job_lost',
    ],
    ['ready, all settled', { record: record() }, 'keep', 'at_rest'],
    [
      'failed, a create of 59 s ago is open',
      { record: record({ state: 'failed', creates: { pods: intent({ sentAt: 40_001 }) } }) },
      'keep',
      'at_rest',
    ],
    [
      'failed, a create of 60 s ago is open',
      { record: record({ state: 'failed', creates: { pods: intent({ sentAt: 40_000 }) } }) },
      'settle',
      'create_never_settled',
    ],
    [
      'failed, the create was answered',
      { record: record({ state: 'failed', creates: { pods: intent({ open: false }) } }) },
      'keep',
      'at_rest',
    ],
  ])('%s', (_name, given, verdict, rule) => {
    expect(judgeStuck(facts(given))).toMatchObject({ verdict, rule });
  });

  it.each<[string, Partial<InstanceRecord>, string]>([
    ['a launch', {}, 'launch'],
    ['a removal', { intent: 'absent', removeUpTo: 100, generation: 100, run: 3 }, `teardown-${'a'.repeat(20)}-100-3`],
    [
      'a removal of another run that a newer launch waits for',
      { removeUpTo: 90, removeRun: 2, generation: 100 },
      `teardown-${'a'.repeat(20)}-90-2`,
    ],
    ['a removal that a newer launch waits for', { removeUpTo: 90, generation: 100 }, `teardown-${'a'.repeat(20)}-90-1`],
  ])('%s has a job of a known name', (_name, fields, id) => {
    expect(jobOf(record(fields)).jobId.startsWith(id)).toBe(true);
  });
});

describe('the verdict on a shared ConfigMap', () => {
  const name = `windlass-agent-${'b'.repeat(40)}`;
  const facts = (fields: Partial<MapFacts>): MapFacts => ({
    name,
    current: 'other',
    deleting: false,
    usedBy: undefined,
    sighting: { before: true, ageSeconds: 90_000 },
    graceSeconds: 86_400,
    ...fields,
  });
  it.each<[string, Partial<MapFacts>, string, string]>([
    ['the epoch', { name: `windlass-epoch-${'c'.repeat(20)}` }, 'keep', 'epoch'],
    ['a name that is not ours', { name: 'kube-root-ca.crt' }, 'foreign', 'not_named_by_us'],
    ['of this version', { current: name }, 'keep', 'current_version'],
    ['on its way out', { deleting: true }, 'keep', 'being_deleted'],
    ['named by somebody', { usedBy: 'pod' }, 'keep', 'in_use'],
    ['younger than a day', { sighting: { before: true, ageSeconds: 86_399 } }, 'watch', 'nothing_uses_it'],
    ['seen once', { sighting: { before: false, ageSeconds: 90_000 } }, 'watch', 'nothing_uses_it'],
    ['old, unused, seen twice', {}, 'delete', 'nothing_uses_it'],
    ['a recipe, the same', { name: `windlass-profile-${'d'.repeat(40)}` }, 'delete', 'nothing_uses_it'],
  ])('%s', (_name, given, verdict, rule) => {
    expect(judgeConfigMap(facts(given))).toMatchObject({ verdict, rule });
  });

  it('a Pod names a map in volumes, projected volumes, env and envFrom of every kind of container, and by its recipe', () => {
    const env = (map: string) => [{ name: 'X', valueFrom: { configMapKeyRef: { name: map, key: 'k' } } }];
    const pod: V1Pod = {
      metadata: { annotations: { 'windlass.dev/snapshot': 'e'.repeat(64) } },
      spec: {
        volumes: [
          { name: 'a', configMap: { name: 'volume' } },
          { name: 'b', projected: { sources: [{ configMap: { name: 'projected' } }, { secret: { name: 's' } }] } },
        ],
        containers: [
          { name: 'c', env: env('env') },
          { name: 'd', envFrom: [{ configMapRef: { name: 'envFrom' } }] },
        ],
        initContainers: [{ name: 'i', env: env('init') }],
        ephemeralContainers: [{ name: 'e', env: env('ephemeral') }],
      },
    };
    expect(mapsNamedBy(pod).sort()).toEqual([
      'env',
      'envFrom',
      'ephemeral',
      'init',
      'projected',
      'volume',
      `windlass-profile-${'e'.repeat(40)}`,
    ]);
  });
});
