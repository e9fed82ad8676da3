import { join } from 'node:path';
import { build } from 'esbuild';
import { root } from '../root.ts';

/** The stub as one executable file, as an agentctl is. By a whole path it needs no PATH, as the original, a binary, does not. */
export async function agentctlFile(interpreter = '/usr/bin/env node'): Promise<Uint8Array> {
  const result = await build({
    absWorkingDir: root,
    entryPoints: [join('test', 'support', 'agentctl', 'main.ts')],
    bundle: true,
    write: false,
    platform: 'node',
    target: 'node20',
    // An extensionless file is CommonJS to Node 20.
    format: 'cjs',
    banner: { js: `#!${interpreter}` },
  });
  return result.outputFiles[0]?.contents ?? new Uint8Array();
}
