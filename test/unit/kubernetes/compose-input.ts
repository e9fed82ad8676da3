import { profileSchema } from '../../../src/config/schema.ts';
import type { ComposeInput } from '../../../src/kubernetes/compose.ts';
import { parseTemplate } from '../../../src/kubernetes/template.ts';

export const templateText = `
apiVersion: v1
kind: PodTemplate
template:
  metadata:
    labels: { team: blue }
    annotations: { note: from the template }
  spec:
    securityContext: { runAsUser: 1000, fsGroup: 1000 }
    tolerations: [{ key: gpu, operator: Exists }]
    nodeSelector: { disk: ssd }
    containers:
      - name: agent
        image: node:local
        env: [{ name: LANG, value: C.UTF-8 }]
        resources: { requests: { cpu: 250m }, limits: { memory: 2Gi } }
        securityContext: { allowPrivilegeEscalation: false }
        volumeMounts: [{ name: cache, mountPath: /cache }]
      - name: proxy
        image: proxy:1
    volumes:
      - name: cache
        emptyDir: {}
`;

export function composeInput(overrides: Partial<ComposeInput> = {}): ComposeInput {
  const { template } = parseTemplate(templateText, 'template');
  if (!template) throw new Error('the sample template is not valid');
  return {
    identity: {
      installation: 'local',
      instanceId: 'ins/1 ü',
      hash: '0123456789abcdef0123',
      owner: 'alice',
      cluster: 'default',
      profile: 'node',
      taskId: 't-1',
    },
    namespace: 'sandboxes',
    generation: 7,
    nonce: 'ab'.repeat(32),
    profile: profileSchema.parse({ workspace: { mode: 'managed_pvc', size: '10Gi' } }),
    template,
    workspaceClaim: 'windlass-0123456789abcdef0123-workspace',
    agent: {
      configMapName: 'windlass-agent-00',
      program: { protocol: 'windlass' as const, sha256: 'cd'.repeat(32) },
      bootLine: ['sh', '-c', 'boot'],
    },
    prepares: true,
    snapshotName: 'ef'.repeat(32),
    ...overrides,
  };
}
