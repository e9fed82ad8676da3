import type { V1Pod } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clusterSchema, type ProfileConfig, profileSchema } from '../../src/config/schema.ts';
import { WindlassError } from '../../src/errors.ts';
import { compareClaim, comparePod } from '../../src/kubernetes/admission.ts';
import { createClusters } from '../../src/kubernetes/clusters.ts';
import { type ComposeInput, composeClaim, composePod } from '../../src/kubernetes/compose.ts';
import { adoptable, identityOn, isOurs, sharedLabels, specHash } from '../../src/kubernetes/ownership.ts';
import { judgePod, type PodJudgement } from '../../src/kubernetes/pod-failure.ts';
import { parseTemplate } from '../../src/kubernetes/template.ts';
import { claimName, instanceHash, podName } from '../../src/names.ts';
import { createNamespace, realKubeconfig } from '../support/real-cluster.ts';

const image = process.env.WINDLASS_TEST_IMAGE ?? 'node:local';
const space = await createNamespace('pods');
const installation = 'pods-test';
const quiet = { debug: () => {}, info: () => {}, warn: () => {} };
const clusters = createClusters(
  { main: clusterSchema.parse({ authMode: 'kubeconfig', kubeconfigPath: realKubeconfig(), namespace: space.name }) },
  { installation, dir: '/', log: quiet },
);
const cluster = clusters.get('main');

/** One Pod template that the `restricted` policy accepts, with what a case changes. */
function templateWith(main: string, spec = ''): string {
  return `
apiVersion: v1
kind: PodTemplate
template:
  spec:
    securityContext: { runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000, seccompProfile: { type: RuntimeDefault } }
    terminationGracePeriodSeconds: 1
${spec}
    containers:
      - name: agent
        image: ${image}
        imagePullPolicy: Never
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: [ALL] } }
${main}
`;
}

interface Case {
  readonly template?: string;
  readonly script?: string;
  readonly profile?: object;
  readonly image?: string;
}

let count = 0;
function inputFor(wanted: Case): ComposeInput {
  count += 1;
  const instanceId = `case/${count}`;
  const profile: ProfileConfig = profileSchema.parse({
    workspace: { mode: 'managed_pvc', size: '16Mi' },
    budgets: { schedule: 300, storage: 300, pull: 300, start: 300 },
    ...wanted.profile,
  });
  const { template, issues } = parseTemplate(wanted.template ?? templateWith(''), 'template', profile);
  if (!template) throw new Error(JSON.stringify(issues));
  const [main] = template.template?.spec?.containers ?? [];
  if (main && wanted.image !== undefined) main.image = wanted.image;
  return {
    identity: {
      installation,
      instanceId,
      hash: instanceHash(installation, instanceId),
      owner: 'ü',
      cluster: 'main',
      profile: 'node',
    },
    namespace: space.name,
    generation: 1,
    nonce: 'ab'.repeat(32),
    profile,
    template,
    workspaceClaim: undefined,
    agent: {
      configMapName: 'windlass-agent-test',
      program: { protocol: 'windlass' as const, sha256: '00' },
      bootLine: ['sh', '-c', wanted.script ?? 'exec sleep 3600'],
    },
    prepares: false,
  };
}

const judge = (pod: V1Pod, input: ComposeInput): PodJudgement =>
  judgePod({
    pod,
    mainContainer: input.profile.mainContainer,
    events: cluster.pods.eventsOf(pod.metadata?.uid ?? ''),
    now: Date.now() + cluster.clockSkewMs(),
    budgets: input.profile.budgets,
  });

/** Judges at every change, and when a grace or budget ends, until the verdict is of the wanted kind. */
async function judged(input: ComposeInput, wanted: (verdict: PodJudgement) => boolean, seconds = 60): Promise<PodJudgement> {
  const name = podName(input.identity.hash);
  const signal = AbortSignal.timeout(seconds * 1000);
  let last: PodJudgement | undefined;
  for (;;) {
    const pod = cluster.pods.get(name);
    if (pod) last = judge(pod, input);
    if (last && wanted(last)) return last;
    if (signal.aborted) throw new Error(`${name} was last judged ${JSON.stringify(last)}`);
    await changeOf(name, signal);
  }
}
function changeOf(name: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      off();
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const off = cluster.pods.onChange((change) => change.name === name && done());
    const timer = setTimeout(done, 500);
    signal.addEventListener('abort', done);
  });
}
const failed = (verdict: PodJudgement): boolean => verdict.kind === 'failed';

beforeAll(async () => {
  const metadata = { name: 'windlass-agent-test', namespace: space.name, labels: sharedLabels(installation, 'agent') };
  await cluster.create('configmaps', { metadata, immutable: true, data: { 'agent.mjs': '' } });
  await cluster.pods.ready();
  // The service account of a new namespace takes a moment.
  for (;;) {
    const probe = await cluster.create('pods', composePod(inputFor({})), { dryRun: true }).catch((error: unknown) => error);
    if (!(probe instanceof WindlassError && /serviceaccount/.test(probe.message))) break;
  }
}, 30_000);
afterAll(async () => {
  await space.remove();
  await clusters.close();
});

describe('what we compose, on a real server', () => {
  it('C27: claim and Pod are admitted unchanged, bind without a wait of ours, run, and are ours again when read', async () => {
    const input = { ...inputFor({}), prepares: true };
    const name = claimName(input.identity.hash);
    const claim = composeClaim(input);
    expect(compareClaim(claim, await cluster.create('persistentvolumeclaims', claim))).toEqual([]);
    const withClaim = { ...input, workspaceClaim: name };
    const wanted = composePod(withClaim);
    const admitted = await cluster.create('pods', wanted);
    expect(comparePod(wanted, admitted)).toEqual([]);
    expect(await judged(input, ({ kind }) => kind === 'running')).toMatchObject({ started: false, restartCount: 0 });
    const read = await cluster.read('pods', podName(input.identity.hash));
    expect(comparePod(wanted, read ?? {})).toEqual([]);
    expect(adoptable(read?.metadata ?? {}, { nonce: input.nonce, specHash: specHash(wanted) })).toBe('ours');
    expect(isOurs(read?.metadata ?? {}, input.identity)).toBe(true);
    expect(identityOn(read?.metadata ?? {})).toEqual(input.identity);
    const bound = await cluster.read('persistentvolumeclaims', name);
    expect(bound?.status?.phase).toBe('Bound');
    expect(compareClaim(claim, bound ?? {})).toEqual([]);
    const target = { pod: podName(input.identity.hash), container: 'agent' };
    const look = await cluster.exec(target, [
      'sh',
      '-c',
      'touch /workspace/a "$WINDLASS_RUN_DIR/prepared" && pwd && echo "$HOME"',
    ]);
    expect(look).toMatchObject({ exitCode: 0, stdout: '/workspace\n/run/windlass/home\n' });
    expect(await judged(input, (verdict) => verdict.kind === 'running' && verdict.started)).toMatchObject({ restartCount: 0 });
  }, 90_000);

  it('the embedded agent-less form runs the image as it is', async () => {
    const template = templateWith('        command: [sh, -c, "exec sleep 3600"]');
    const input = {
      ...inputFor({ template, profile: { workspace: { mode: 'empty_dir' }, agent: { delivery: 'none' } } }),
      agent: undefined,
    };
    const wanted = composePod(input);
    expect(comparePod(wanted, await cluster.create('pods', wanted))).toEqual([]);
    expect(await judged(input, ({ kind }) => kind === 'running')).toMatchObject({ started: true });
  }, 60_000);

  it('delivery init_image leaves a runtime where the agent finds it', async () => {
    const input = inputFor({ profile: { agent: { delivery: 'init_image', image } } });
    const wanted = composePod(input);
    expect(comparePod(wanted, await cluster.create('pods', wanted))).toEqual([]);
    await judged(input, ({ kind }) => kind === 'running');
    const target = { pod: podName(input.identity.hash), container: 'agent' };
    const ran = await cluster.exec(target, ['sh', '-c', '"$WINDLASS_OPT_DIR/bin/node" -p 6*7']);
    expect(ran).toMatchObject({ exitCode: 0, stdout: '42\n' });
  }, 90_000);
});

describe('what a real kubelet says, by the table', () => {
  const cases: [string, Case, string, RegExp][] = [
    ['an image name that is none', { image: 'Not/Valid:::' }, 'image_invalid', /InvalidImageName/],
    ['an image that may not be pulled', { image: 'absent:local' }, 'image_pull_failed', /ErrImageNeverPull/],
    ['a crash loop', { script: 'echo last words; exit 3' }, 'crash_loop', /exit code 3.*last words/],
    ['an early end', { script: 'exit 0' }, 'exit_early', /exit code 0/],
    [
      'a failed prepare step',
      { script: 'echo "windlass: prepare failed with exit code 9" >&2; exit 9' },
      'prepare_failed',
      /exit code 9/,
    ],
    [
      'an image without Node',
      { script: 'echo "windlass: node not found" >&2; exit 127' },
      'agent_runtime_missing',
      /node not found/,
    ],
    [
      'a Secret that does not exist',
      { template: templateWith('        env: [{ name: A, valueFrom: { secretKeyRef: { name: gone, key: a } } }]') },
      'config_missing',
      /secret "gone" not found/,
    ],
    [
      'an init container that fails',
      {
        template: templateWith(
          '',
          `    initContainers:
      - name: setup
        image: ${image}
        imagePullPolicy: Never
        command: [sh, -c, "exit 4"]
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: [ALL] } }`,
        ),
      },
      'crash_loop',
      /setup ended with exit code 4/,
    ],
    [
      'no node that fits',
      { template: templateWith('', '    nodeSelector: { disk: none }'), profile: { budgets: { schedule: 2 } } },
      'launch_deadline',
      /node/,
    ],
  ];
  it.concurrent.each(cases)(
    '%s',
    async (_name, wanted, code, text) => {
      const input = inputFor(wanted);
      await cluster.create('pods', composePod(input));
      const verdict = await judged(input, failed, 90);
      expect(verdict).toMatchObject({ code, message: expect.stringMatching(text) });
    },
    100_000,
  );

  it('a missing ConfigMap shows while its grace lasts', async () => {
    const input = inputFor({});
    const agent = {
      configMapName: 'windlass-agent-00ff',
      program: { protocol: 'windlass' as const, sha256: '00' },
      bootLine: ['sh'],
    };
    await cluster.create('pods', composePod({ ...input, agent }));
    const verdict = await judged(input, (seen) => seen.kind === 'waiting' && /windlass-agent-00ff" not found/.test(seen.message));
    expect(verdict).toMatchObject({ kind: 'waiting', reason: 'storage' });
  }, 90_000);

  it('a Pod deleted by somebody else', async () => {
    const input = inputFor({ script: 'trap "" TERM; while :; do sleep 1; done' });
    const made = await cluster.create('pods', composePod(input));
    await judged(input, ({ kind }) => kind === 'running');
    await cluster.remove('pods', made.metadata?.name ?? '', { uid: made.metadata?.uid ?? '', graceSeconds: 3 });
    expect(await judged(input, failed)).toMatchObject({ code: 'pod_disrupted' });
  }, 90_000);
});
