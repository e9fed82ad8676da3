import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { stringify } from 'yaml';

export const validKeys = {
  sealing: [
    {
      id: 's1',
      publicKey: {
        kty: 'EC',
        crv: 'P-256',
        x: 'sleVsF4e_VM9NtstX-40OLuGKwpFO6VnDXR55FZSiuI',
        y: 'BzHyeoMJaTMmPEcHKrufh5VVT5MKR6pF2HMSjIEyLx0',
      },
      privateKeyEnv: 'WINDLASS_SEALING_KEY',
    },
  ],
  atRest: [{ id: 'k1', keyEnv: 'WINDLASS_SECRET_KEY' }],
};

/** The smallest configuration that is valid. */
export const validConfig = () => ({
  clusters: {
    default: { authMode: 'kubeconfig', kubeconfigPath: 'kubeconfig', namespace: 'sandboxes' } as Record<string, unknown>,
  },
  profiles: {
    node: {
      podTemplate: 'kind: PodTemplate',
      workspace: { mode: 'managed_pvc', size: '1Gi' } as Record<string, unknown>,
    } as Record<string, unknown>,
  },
  secrets: validKeys as Record<string, unknown>,
});

/** A folder of this test's own with a windlass.yaml in it. */
export async function configFolder(config: unknown, files: Readonly<Record<string, string>> = {}): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'windlass-config-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  await writeFile(join(dir, 'windlass.yaml'), typeof config === 'string' ? config : stringify(config));
  for (const [name, text] of Object.entries(files)) await writeFile(join(dir, name), text);
  return dir;
}
