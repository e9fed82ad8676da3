import { describe, expect, it } from 'vitest';
import { readFileTest } from '../../../src/local-cluster/kubelet/file-probe.ts';

const env = { RUN: '/run/windlass' };

describe('probes that only look for a file', () => {
  it.each([
    [['test', '-f', '/run/a'], { flag: 'f', path: '/run/a' }],
    [['sh', '-c', 'test -f "$RUN/prepared"'], { flag: 'f', path: '/run/windlass/prepared' }],
    [['sh', '-c', 'test -d ${RUN}'], { flag: 'd', path: '/run/windlass' }],
    [['sh', '-c', 'test -s /run/a'], { flag: 's', path: '/run/a' }],
  ])('are recognised: %j', (command, expected) => {
    expect(readFileTest(command, env)).toEqual(expected);
  });

  it.each([
    [['sh', '-c', 'test -f /run/a && true']],
    [['sh', '-c', 'test ! -f /run/a']],
    [['sh', '-c', 'test -f $(pwd)/a']],
    [['sh', '-c', 'test -f relative']],
    [['sh', '-c', 'test -f $UNKNOWN']],
    [['sh', '-c', 'test -f "$RUN/a']],
    [['sh', '-c', 'test -x /run/a']],
    [['sh', '-c', 'test -f /run/../etc/a']],
    [['sh', '-c', 'test -f /run/a', 'more']],
    [['test', '-f', '$RUN/a']],
    [['cat', '/run/a']],
  ])('everything else is run: %j', (command) => {
    expect(readFileTest(command, env)).toBeUndefined();
  });
});
