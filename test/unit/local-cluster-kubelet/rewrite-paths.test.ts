import { describe, expect, it } from 'vitest';
import { rewritePaths, sortMappings } from '../../../src/local-cluster/kubelet/rewrite-paths.ts';

const mappings = sortMappings([
  { from: '/workspace', to: '/data/w' },
  { from: '/opt/windlass', to: '/data/o' },
  { from: '/opt/windlass-agent', to: '/data/a' },
  { from: '/workspace/cache', to: '/data/c' },
]);

describe('paths of the container in path mode', () => {
  it.each([
    ['/workspace', '/data/w'],
    ['/workspace/a.txt', '/data/w/a.txt'],
    ['cd /workspace && ls "/workspace/cache/x"', 'cd /data/w && ls "/data/c/x"'],
    ['exec node /opt/windlass-agent/agent.mjs entry', 'exec node /data/a/agent.mjs entry'],
    ['. /opt/windlass/runtime.env;', '. /data/o/runtime.env;'],
    ['A=/workspace:/opt/windlass', 'A=/data/w:/data/o'],
    ['/workspace.', '/data/w.'],
    ['/workspaces /workspace-2 /workspace.d', '/workspaces /workspace-2 /workspace.d'],
    ['/home/workspace ./workspace x/workspace', '/home/workspace ./workspace x/workspace'],
  ])('turns %s into %s', (text, expected) => {
    expect(rewritePaths(text, mappings)).toBe(expected);
  });

  it('changes nothing without mappings', () => {
    expect(rewritePaths('/workspace', [])).toBe('/workspace');
  });
});
