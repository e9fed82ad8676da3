import { describe, expect, it } from 'vitest';
import { html } from '../../../src/dashboard/html.ts';
import { instancePage, listPage } from '../../../src/dashboard/pages.ts';
import { ageWords, durationWords, eventWords } from '../../../src/dashboard/words.ts';
import { type InstanceEvent, type InstanceRecord, states } from '../../../src/inventory/types.ts';

const record: InstanceRecord = {
  schema: 1,
  instanceId: 'broken',
  hash: '0'.repeat(20),
  owner: 'default',
  state: 'failed',
  before: 'requested',
  intent: 'present',
  generation: 7,
  run: 1,
  removeUpTo: 0,
  removal: null,
  fence: '1',
  request: { payload: { env: { PLAIN: 'env-value' }, prepare: 'script-text' }, requestHash: '' },
  cluster: 'default',
  namespace: 'sandboxes',
  profile: 'node',
  app: '',
  snapshot: '',
  hashes: null,
  creates: {},
  pod: { name: 'windlass-0', uid: 'u', node: 'node-17', ip: '10.1.2.3', createdByGeneration: 7 },
  workspace: { mode: 'managed_pvc', claimName: 'windlass-0-workspace', claimUid: 'c', created: true, createdByGeneration: 7 },
  agent: null,
  restartCount: 2,
  rebuilds: 0,
  exitCode: null,
  stages: [
    { name: 'workspace', state: 'done', checkpoint: 'pvc_admitted', startedAt: 1000, durationMs: 57 },
    { name: 'pod', state: 'failed', checkpoint: 'pod_admitted', startedAt: 2000, durationMs: 4100 },
  ],
  failure: {
    code: 'oom_killed',
    message: 'The container was killed at 64Mi.',
    hint: 'Raise the memory limit.',
    retriable: false,
    issues: [],
    stage: 'pod',
    generation: 7,
    run: 1,
    evidence: { log: 'evidence-text' },
    attemptsLeft: 0,
    at: 6000,
  },
  attemptsLeft: 0,
  crashes: 0,
  limits: {},
  lifetime: null,
  createdAt: 1000,
  readyAt: 0,
  updatedAt: 6000,
  deadlineAt: 0,
  expiresAt: 0,
};
const event: InstanceEvent = {
  seq: 3,
  instanceId: 'broken',
  generation: 7,
  type: 'waiting',
  at: '2026-01-01T00:00:05.000Z',
  stage: 'pod',
  reason: 'pulling',
};

describe('the page of an instance', () => {
  it('says in plain words why a launch failed, in which stage, and that it is over', () => {
    const { text } = instancePage({ record, events: [event], now: 9000, everything: false });
    expect(text).toContain('The workspace ran out of memory.');
    expect(text).toContain('The container was killed at 64Mi.');
    expect(text).toContain('Raise the memory limit. It is not tried again.');
    expect(text).toContain('<code>oom_killed</code>, in stage pod');
    expect(text).toContain('pod waits (pulling)');
    expect(text).toContain('4.1 s');
  });

  it('shows a viewer neither evidence, node nor address; scripts and env are shown to nobody', () => {
    const viewer = instancePage({ record, events: [], now: 9000, everything: false }).text;
    const caller = instancePage({ record, events: [], now: 9000, everything: true }).text;
    for (const hidden of ['evidence-text', 'node-17', '10.1.2.3']) {
      expect(viewer).not.toContain(hidden);
      expect(caller).toContain(hidden);
    }
    expect(viewer + caller).not.toMatch(/env-value|script-text/);
  });
});

it('the list shows the failure, or what a launch waits for', () => {
  const waiting: InstanceRecord = {
    ...record,
    instanceId: 'b',
    state: 'launching',
    failure: null,
    stages: [{ name: 'pod', state: 'waiting', wait: 'scheduling' }],
  };
  const view = {
    base: '/w',
    items: [record, waiting],
    now: 61_000,
    nextCursor: 'next',
    state: undefined,
    states,
    owner: undefined,
    owners: [],
  };
  const { text } = listPage(view);
  expect(text).toContain('The container was killed at 64Mi.');
  expect(text).toContain('pod: waits for scheduling');
  expect(text).toContain('href="/w/instances/broken"');
  expect(text).toContain('href="/w/?cursor=next"');
  expect(text).toContain('<td>1m</td>');
});

it('nothing that is put into a page becomes markup or turns its text around', () => {
  const hostile = `<b onclick='x'>"&\u202e\u0007`;
  expect(html`<a href="${hostile}">${[hostile, html`<i>${1}</i>`]}</a>${null}${undefined}`.text).toBe(
    '<a href="&lt;b onclick=&#39;x&#39;&gt;&quot;&amp;\ufffd\ufffd">&lt;b onclick=&#39;x&#39;&gt;&quot;&amp;\ufffd\ufffd<i>1</i></a>',
  );
});

it.each([
  [0, '0 ms'],
  [-5, '0 ms'],
  [999, '999 ms'],
  [4100, '4.1 s'],
  [61_000, '1m1s'],
])('%i ms is said as %s', (ms, words) => {
  expect(durationWords(ms)).toBe(words);
});

it.each([
  [-1, '0s'],
  [60_000, '1m'],
  [3_661_000, '1h1m'],
  [90_000_000, '1d1h'],
])('an age of %i ms is said as %s', (ms, words) => {
  expect(ageWords(ms)).toBe(words);
});

it('an event of a type that is not known yet is said by its name', () => {
  expect(eventWords({ ...event, type: 'something_new' })).toBe('something new');
});
