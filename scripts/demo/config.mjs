import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { root } from '../lib/paths.mjs';

export const namespace = 'windlass-instances';

/**
 * Writes the configuration of this one run into the demo's folder: examples/windlass.yaml with fresh keys, a token, and
 * the addresses of what was started. Answers with its path, the environment that holds the private keys, and the token.
 */
export async function writeConfig(folder, { redisUrl, kubeconfig }) {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const token = randomBytes(24).toString('base64url');
  // Ends within a day, so that it may stand in the address that the demo prints.
  const expiresAt = new Date(Date.now() + 12 * 3600 * 1000).toISOString();
  const config = parse(await readFile(join(root, 'examples/windlass.yaml'), 'utf8'));
  config.installation = 'demo';
  config.redis.url = redisUrl;
  config.clusters.default = { authMode: 'kubeconfig', kubeconfigPath: kubeconfig, namespace };
  config.http = {
    port: 0,
    tokens: [
      { name: 'demo', sha256: createHash('sha256').update(token).digest('hex'), role: 'operator', owners: ['*'], expiresAt },
    ],
  };
  config.secrets.sealing[0].publicKey = publicKey.export({ format: 'jwk' });

  await cp(join(root, 'examples/profiles'), join(folder, 'profiles'), { recursive: true });
  const file = join(folder, 'windlass.yaml');
  await writeFile(file, stringify(config), { mode: 0o600 });
  const env = {
    WINDLASS_SEALING_KEY: JSON.stringify(privateKey.export({ format: 'jwk' })),
    WINDLASS_SECRET_KEY: randomBytes(32).toString('base64url'),
  };
  const lines = Object.entries(env).map(([name, value]) => `${name}=${value}\n`);
  await writeFile(join(folder, 'windlass.env'), lines.join(''), { mode: 0o600 });
  return { file, env, token };
}
