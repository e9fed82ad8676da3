import * as library from '@kubernetes/client-node';
import { describe, expect, it } from 'vitest';
import { profileSchema } from '../../../src/config/schema.ts';
import { parseTemplate } from '../../../src/kubernetes/template.ts';
import { shapes } from '../../../src/kubernetes/template-shapes.ts';
import { templateText } from './compose-input.ts';

const path = 'profiles.node.podTemplate';
const spec = (lines: string): string =>
  `apiVersion: v1\nkind: PodTemplate\ntemplate:\n  spec:\n${lines.replace(/^/gm, '    ')}\n`;
const withMain = (lines: string, more = ''): string =>
  spec(`containers:\n- name: agent\n  image: i\n${lines.replace(/^/gm, '  ')}\n${more}`);
const everythingOfOurs =
  'image: i, envFrom: [{secretRef: {name: s}}], env: [{name: WINDLASS_X, value: x}], ports: [{containerPort: 8765}], volumeMounts: [{name: windlass-opt, mountPath: /opt/windlass}]';
const issuesOf = (text: string, profile = {}) => parseTemplate(text, path, profile).issues;
const pathsOf = (text: string, profile = {}) => issuesOf(text, profile).map((issue) => issue.path);

describe('reading', () => {
  it('accepts what an operator may say and keeps it', () => {
    const parsed = parseTemplate(templateText, path);
    expect(parsed.issues).toEqual([]);
    expect(parsed.template?.template?.spec?.tolerations).toEqual([{ key: 'gpu', operator: 'Exists' }]);
  });

  it('takes numbers as quantities and null as not set', () => {
    const { template } = parseTemplate(withMain('resources: {limits: {cpu: 2}}\nargs: null'), path);
    expect(template?.template?.spec?.containers[0]).toEqual({ name: 'agent', image: 'i', resources: { limits: { cpu: '2' } } });
  });

  const unreadable: [string, string, RegExp][] = [
    ['an empty text', '', /empty/],
    ['two documents', `${templateText}\n---\n${templateText}`, /exactly one document/],
    ['more than 256 KiB', `${templateText}\n# ${'x'.repeat(256 * 1024)}`, /256 KiB/],
    ['broken YAML', 'a: [', /no YAML/],
    ['a key twice', 'apiVersion: v1\napiVersion: v1', /no YAML/],
    ['a list', '- 1', /must be a mapping/],
  ];
  it.each(unreadable)('refuses %s', (_name, text, message) => {
    const [issue] = issuesOf(text);
    expect(issue?.path).toBe(path);
    expect(issue?.message).toMatch(message);
  });

  it('refuses an alias bomb without unfolding it', () => {
    const levels = Array.from(
      { length: 30 },
      (_, index) => `l${index + 1}: &l${index + 1} [*l${index}, *l${index}, *l${index}, *l${index}]`,
    );
    // Unfolded it would have 4^30 parts: neither time nor memory would do.
    const [issue] = issuesOf(['l0: &l0 [x, x]', ...levels].join('\n'));
    expect(issue?.message).toMatch(/alias/);
  });

  it('names unknown fields and wrong types, all at once', () => {
    const text = withMain(
      'imagePullPolice: Always\nenv: [{name: A, value: 1}]\nstdin: "yes"\nresources: {limits: {memory: lots}}',
      'priority: high',
    );
    expect(issuesOf(text)).toEqual([
      { path: `${path}.template.spec.containers[0].imagePullPolice`, message: 'is no field of Container' },
      { path: `${path}.template.spec.containers[0].env[0].value`, message: 'must be text (put it in quotes)' },
      { path: `${path}.template.spec.containers[0].stdin`, message: 'must be true or false' },
      {
        path: `${path}.template.spec.containers[0].resources.limits.memory`,
        message: 'must be a quantity such as 10Gi, 500m or 2',
      },
      { path: `${path}.template.spec.priority`, message: 'must be a whole number' },
    ]);
  });

  it('refuses another kind', () => {
    expect(pathsOf(templateText.replace('PodTemplate', 'Pod').replace('v1', 'v2'))).toEqual([
      `${path}.apiVersion`,
      `${path}.kind`,
    ]);
  });
});

describe('reserved', () => {
  const below = `${path}.template.spec`;
  const cases: [string, string, string[]][] = [
    [
      'command, args and folder',
      withMain('command: [x]\nargs: [y]\nworkingDir: /x'),
      ['command', 'args', 'workingDir'].map((f) => `${below}.containers[0].${f}`),
    ],
    ['the startup probe', withMain('startupProbe: {exec: {command: [x]}}'), [`${below}.containers[0].startupProbe`]],
    [
      'HOME and WINDLASS_*',
      withMain('env: [{name: HOME, value: x}, {name: A, value: x}, {name: WINDLASS_X, value: x}]'),
      [0, 2].map((i) => `${below}.containers[0].env[${i}].name`),
    ],
    ['envFrom', withMain('envFrom: [{secretRef: {name: s}}]'), [`${below}.containers[0].envFrom`]],
    [
      'the port by number and name',
      withMain('ports: [{containerPort: 8765}, {containerPort: 1, name: windlass-agent}]'),
      [`${below}.containers[0].ports[0].containerPort`, `${below}.containers[0].ports[1].name`],
    ],
    [
      'our paths, however written',
      withMain(
        'volumeMounts: [{name: v, mountPath: /workspace/../workspace//x}, {name: v, mountPath: /run/windlass}, {name: v, mountPath: /workspaces}]',
      ),
      [0, 1].map((i) => `${below}.containers[0].volumeMounts[${i}].mountPath`),
    ],
    [
      'our volumes',
      withMain('volumeMounts: [{name: windlass-run, mountPath: /x}]', 'volumes: [{name: windlass-opt, emptyDir: {}}]'),
      [`${below}.volumes[0].name`, `${below}.containers[0].volumeMounts[0].name`],
    ],
    [
      'our volumes as devices',
      withMain('volumeDevices: [{name: windlass-workspace, devicePath: /opt/windlass}]'),
      [`${below}.containers[0].volumeDevices[0].name`, `${below}.containers[0].volumeDevices[0].devicePath`],
    ],
    [
      'in init containers too',
      withMain('', 'initContainers: [{name: a, image: i, env: [{name: HOME, value: x}]}]'),
      [`${below}.initContainers[0].env[0].name`],
    ],
    [
      'everything of ours in an init container and a sidecar too',
      spec(
        `containers:\n- {name: agent, image: i}\n- {name: side, ${everythingOfOurs}}\ninitContainers:\n- {name: first, ${everythingOfOurs}}`,
      ),
      ['initContainers[0]', 'containers[1]'].flatMap((at) =>
        ['envFrom', 'env[0].name', 'ports[0].containerPort', 'volumeMounts[0].name', 'volumeMounts[0].mountPath'].map(
          (field) => `${below}.${at}.${field}`,
        ),
      ),
    ],
    [
      'ephemeral containers at all',
      withMain('', `ephemeralContainers: [{name: late, ${everythingOfOurs}}]`),
      [`${below}.ephemeralContainers`],
    ],
    [
      'platform affinity that is preferred, and by field',
      withMain(
        '',
        'affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: kubernetes.io/os, operator: Exists}]}}], requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: kubernetes.io/arch, operator: In, values: [x]}]}]}}}',
      ),
      [
        `${below}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key`,
        `${below}.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key`,
      ],
    ],
    [
      'spec fields',
      withMain(
        '',
        'restartPolicy: Never\nnodeName: n\nos: {name: linux}\nenableServiceLinks: true\nterminationGracePeriodSeconds: 0',
      ),
      ['restartPolicy', 'nodeName', 'os', 'enableServiceLinks', 'terminationGracePeriodSeconds'].map((f) => `${below}.${f}`),
    ],
    [
      'platform selectors',
      withMain('', 'nodeSelector: {kubernetes.io/os: linux, disk: ssd}'),
      [`${below}.nodeSelector.kubernetes.io/os`],
    ],
    [
      'platform affinity',
      withMain(
        '',
        'affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/arch, operator: In, values: [arm64]}]}]}}}',
      ),
      [
        `${below}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key`,
      ],
    ],
    ['a container without image', spec('containers: [{name: agent}, {name: b, image: i}]'), [`${below}.containers[0].image`]],
    [
      'a container name twice or ours',
      withMain('', '- {name: agent2, image: i}\n- {name: agent2, image: i}\n- {name: windlass-x, image: i}'),
      [`${below}.containers[2].name`, `${below}.containers[3].name`],
    ],
    ['no main container', spec('containers: [{name: other, image: i}]'), [`${below}.containers`]],
  ];
  it.each(cases)('%s', (_name, text, paths) => {
    expect(pathsOf(text)).toEqual(paths);
  });

  it('metadata', () => {
    const metadata =
      'metadata: {name: x, finalizers: [a/b], labels: {app.kubernetes.io/name: x, windlass.dev/owner: y, user.windlass.dev/z: ok}, annotations: {windlass.dev/snapshot: z}}';
    const text = withMain('').replace('template:\n', `template:\n  ${metadata}\n`);
    expect(pathsOf(text)).toEqual(
      [
        'name',
        'finalizers',
        'labels.app.kubernetes.io/name',
        'labels.windlass.dev/owner',
        'annotations.windlass.dev/snapshot',
      ].map((field) => `${path}.template.metadata.${field}`),
    );
  });

  it('leaves the entry point to the template where no agent is delivered', () => {
    const { agent } = profileSchema.parse({ workspace: { mode: 'empty_dir' }, agent: { delivery: 'none' } });
    expect(pathsOf(withMain('command: [x]\nworkingDir: /x'), { agent })).toEqual([]);
  });
});

describe('unsafe', () => {
  const below = `${path}.template.spec`;
  const cases: [string, string, string][] = [
    ['hostPath', withMain('', 'volumes: [{name: v, hostPath: {path: /}}]'), `${below}.volumes[0].hostPath`],
    ['privileged', withMain('securityContext: {privileged: true}'), `${below}.containers[0].securityContext.privileged`],
    [
      'privileged',
      withMain('securityContext: {seccompProfile: {type: Unconfined}}'),
      `${below}.containers[0].securityContext.seccompProfile.type`,
    ],
    ['hostNetwork', withMain('', 'hostNetwork: true'), `${below}.hostNetwork`],
    ['hostPID', withMain('', 'hostPID: true'), `${below}.hostPID`],
    ['hostIPC', withMain('', 'hostIPC: true'), `${below}.hostIPC`],
    ['hostPort', withMain('ports: [{containerPort: 80, hostPort: 80}]'), `${below}.containers[0].ports[0].hostPort`],
    ['automountServiceAccountToken', withMain('', 'automountServiceAccountToken: true'), `${below}.automountServiceAccountToken`],
    [
      'automountServiceAccountToken',
      withMain('', 'volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]'),
      `${below}.volumes[0].projected.sources[0].serviceAccountToken`,
    ],
    [
      'capabilities',
      withMain('securityContext: {capabilities: {add: [SYS_ADMIN]}}'),
      `${below}.containers[0].securityContext.capabilities.add`,
    ],
  ];
  it.each(cases)('%s is an error unless listed, then a warning (%#)', (name, text, at) => {
    expect(pathsOf(text)).toEqual([at]);
    const allowed = parseTemplate(text, path, profileSchema.parse({ workspace: { mode: 'empty_dir' }, allowUnsafe: [name] }));
    expect(allowed.issues).toEqual([]);
    expect(allowed.warnings.map((warning) => warning.path)).toEqual([at]);
    expect(allowed.template).toBeDefined();
  });

  it('says nothing of dropped capabilities or a token that is off', () => {
    const parsed = parseTemplate(
      withMain('securityContext: {capabilities: {drop: [ALL]}}', 'automountServiceAccountToken: false'),
      path,
    );
    expect(parsed).toMatchObject({ issues: [], warnings: [] });
  });
});

it('the table of fields is that of the library', () => {
  const models = library as unknown as Record<string, { getAttributeTypeMap?: () => { baseName: string }[] } | undefined>;
  for (const [name, shape] of shapes) {
    const model = models[`V1${name}`] ?? models[`CoreV1${name}`];
    const known = model?.getAttributeTypeMap?.().map((attribute) => attribute.baseName);
    expect([...shape.keys()].sort(), name).toEqual(known?.sort());
    for (const type of shape.values()) {
      const plain = type.replace(/\[\]|\{\}/g, '');
      expect(
        shapes.has(plain) || ['string', 'int', 'bool', 'any', 'intOrString', 'quantity'].includes(plain),
        `${name}: ${type}`,
      ).toBe(true);
    }
  }
});
