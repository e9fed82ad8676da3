import { join } from 'node:path';
import { build } from 'esbuild';
import { root } from '../root.ts';

/** The stub as one executable file, as an agentctl is. */
export async function agentctlFile(): Promise<Uint8Array> {
  const result = await build({
    absWorkingDir: root,
    entryPoints: [join('test', 'support', 'agentctl', 'main.ts')],
    bundle: true,
    write: false,
    platform: 'node',
    target: 'node20',
    // An extensionless file is CommonJS to Node 20.
    format: 'cjs',
    banner: { js: '#!/usr/bin/env node' },
  });
  return result.outputFiles[0]?.contents ?? new Uint8Array();
}
