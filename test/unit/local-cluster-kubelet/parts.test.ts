import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LogFile } from '../../../src/local-cluster/kubelet/log-file.ts';
import { streamLog } from '../../../src/local-cluster/kubelet/log-stream.ts';
import { misfit } from '../../../src/local-cluster/kubelet/node-fit.ts';
import type { Pod } from '../../../src/local-cluster/kubelet/pod-types.ts';
import { writePayload } from '../../../src/local-cluster/kubelet/projection.ts';
import { describeStartError } from '../../../src/local-cluster/kubelet/start-error.ts';
import { BackOff, limit } from '../../../src/local-cluster/kubelet/timing.ts';
import type { KubeObject } from '../../../src/local-cluster/types.ts';
import { unimplementedFields } from '../../../src/local-cluster/unimplemented.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'windlass-parts-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('projected files', () => {
  const payload = (files: Record<string, string>, mode = 0o640) =>
    new Map(Object.entries(files).map(([path, content]) => [path, { content: Buffer.from(content), mode }]));

  it('lie behind one link that changes at once, with their modes and folders', () => {
    writePayload(folder, payload({ a: '1', 'd/e/b': '2' }));
    expect(readFileSync(join(folder, 'd/e/b'), 'utf8')).toBe('2');
    expect(readlinkSync(join(folder, 'a'))).toBe('..data/a');
    expect(statSync(join(folder, 'a')).mode & 0o777).toBe(0o640);
    const first = readlinkSync(join(folder, '..data'));
    writePayload(folder, payload({ a: '1', 'd/e/b': '2' }));
    expect(readlinkSync(join(folder, '..data'))).toBe(first);
    writePayload(folder, payload({ a: '3' }));
    expect(readlinkSync(join(folder, '..data'))).not.toBe(first);
    expect(readdirSync(folder).filter((name) => !name.startsWith('..'))).toEqual(['a']);
    expect(readdirSync(folder)).not.toContain(first);
  });
});

describe('the log of a container', () => {
  const read = async (log: LogFile, options: object = {}) => {
    const chunks: Buffer[] = [];
    const signal = new AbortController().signal;
    for await (const chunk of streamLog(log, { follow: false, previous: false, timestamps: false, signal, ...options }))
      chunks.push(chunk);
    return Buffer.concat(chunks).toString();
  };

  it('keeps characters whole, lines in order, and an unfinished last line', async () => {
    const log = new LogFile(join(folder, 'log'));
    const euro = Buffer.from('5 €\n');
    log.write('stdout', euro.subarray(0, 3));
    log.write('stderr', Buffer.from('err\n'));
    log.write('stdout', euro.subarray(3));
    log.write('stdout', Buffer.from('rest'));
    expect(await read(log)).toBe('err\n5 €\n');
    log.end();
    expect(await read(log)).toBe('err\n5 €\nrest\n');
    expect(await read(log, { tailLines: 1 })).toBe('rest\n');
    expect(await read(log, { tailLines: 0 })).toBe('');
    expect(await read(log, { limitBytes: 6 })).toBe('err\n5 ');
    expect(await read(log, { sinceSeconds: 60, tailLines: 1, timestamps: true })).toMatch(/^\d{4}-\S{19,}Z rest\n$/);
  });

  it('follows until the container ends', async () => {
    const log = new LogFile(join(folder, 'log'));
    log.write('stdout', Buffer.from('one\n'));
    const all = read(log, { follow: true });
    log.write('stdout', Buffer.from('two\n'));
    log.end();
    expect(await all).toBe('one\ntwo\n');
    expect(await read(log, { follow: true })).toBe('one\ntwo\n');
  });

  it('is turned over when it is full', async () => {
    const log = new LogFile(join(folder, 'log'), 100);
    for (let line = 0; line < 10; line++) log.write('stdout', Buffer.from(`line ${line}\n`));
    const kept = await read(log);
    expect(kept.endsWith('line 9\n')).toBe(true);
    expect(kept).not.toContain('line 0\n');
  });
});

describe('whether a Pod fits on the node', () => {
  const node = {
    metadata: { name: 'local', labels: { 'kubernetes.io/os': 'linux', zone: '3' } },
    spec: {},
    status: { allocatable: { cpu: '2', memory: '1Gi', pods: '3' } },
  } as unknown as KubeObject;
  const pod = (spec: object) => ({ metadata: {}, spec: { containers: [], ...spec } }) as unknown as Pod;
  const affinity = (...matchExpressions: object[]) => ({
    affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions }] } } },
  });
  const asks = (requests: object) => ({ containers: [{ resources: { requests } }] });
  const mismatch = "node(s) didn't match Pod's node affinity/selector";

  it.each([
    [{ nodeSelector: { 'kubernetes.io/os': 'linux' } }, undefined],
    [{ nodeSelector: { 'kubernetes.io/os': 'windows' } }, mismatch],
    [affinity({ key: 'zone', operator: 'In', values: ['1', '3'] }), undefined],
    [affinity({ key: 'zone', operator: 'NotIn', values: ['3'] }), mismatch],
    [affinity({ key: 'zone', operator: 'Gt', values: ['2'] }, { key: 'none', operator: 'DoesNotExist' }), undefined],
    [affinity({ key: 'zone', operator: 'Lt', values: ['2'] }), mismatch],
    [affinity(), mismatch],
    [asks({ cpu: '1500m' }), undefined],
    [asks({ cpu: '2500m' }), 'Insufficient cpu'],
    [asks({ memory: '2Gi' }), 'Insufficient memory'],
  ])('%j → %s', (spec, reason) => {
    expect(misfit(pod(spec), node, [])).toBe(reason);
  });

  it('counts what other Pods asked for', () => {
    expect(misfit(pod(asks({ cpu: '1' })), node, [pod(asks({ cpu: '1500m' }))])).toBe('Insufficient cpu');
    expect(misfit(pod({}), node, [pod({}), pod({}), pod({})])).toBe('Too many pods');
  });

  it('heeds taints and cordons, unless they are tolerated', () => {
    const tainted = { ...node, spec: { taints: [{ key: 'k', value: 'v', effect: 'NoSchedule' }] } };
    expect(misfit(pod({}), tainted, [])).toBe('node(s) had untolerated taint {k: v}');
    expect(misfit(pod({ tolerations: [{ key: 'k', operator: 'Exists' }] }), tainted, [])).toBeUndefined();
    expect(misfit(pod({ tolerations: [{ key: 'k', value: 'other' }] }), tainted, [])).toBeDefined();
    expect(misfit(pod({}), { ...node, spec: { unschedulable: true } }, [])).toBe('node(s) were unschedulable');
  });
});

describe('small rules', () => {
  it('backs off from 10 s to 5 min, the first restart being immediate, and forgets after ten good minutes', () => {
    const backOff = new BackOff(0);
    expect([0, 0, 0, 0, 0, 0, 0, 0].map((ran) => backOff.take(ran))).toEqual([
      0, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000,
    ]);
    expect(backOff.take(601_000)).toBe(0);
  });

  it('runs at most so many at once, all of them, also after failures', async () => {
    const inTurn = limit(2);
    let running = 0;
    let most = 0;
    const results = await Promise.allSettled(
      [1, 2, 3, 4, 5].map((number) =>
        inTurn(async () => {
          running += 1;
          most = Math.max(most, running);
          await new Promise((resolve) => setImmediate(resolve));
          running -= 1;
          if (number === 2) throw new Error('two');
          return number;
        }),
      ),
    );
    expect(most).toBe(2);
    expect(results.map((result) => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled', 'fulfilled']);
  });

  it.each([
    ['/no/such', 'bwrap: execvp /no/such: No such file or directory', 'stat /no/such: no such file or directory: unknown'],
    ['nosuch', 'ENOENT', 'executable file not found in $PATH: unknown'],
    ['/etc/hosts', 'EACCES', 'permission denied: unknown'],
    ['x', 'something else', 'something else: unknown'],
  ])('says of %s why it does not start', (program, error, message) => {
    expect(describeStartError(program, error)).toBe(`unable to start container process: exec: "${program}": ${message}`);
  });

  it('names every field that it does not act on', () => {
    const spec = {
      hostNetwork: true,
      hostUsers: false,
      containers: [
        {
          name: 'a',
          securityContext: { privileged: true },
          livenessProbe: { grpc: { port: 1 } },
          ports: [{ containerPort: 1, hostPort: 1 }],
        },
      ],
      volumes: [
        { name: 'n', nfs: { server: 's', path: '/' } },
        { name: 'e', emptyDir: { sizeLimit: '1Gi' } },
        { name: 'ok', emptyDir: {} },
      ],
    };
    const metadata = { name: 'p', uid: '', resourceVersion: '', creationTimestamp: '' };
    expect(unimplementedFields({ apiVersion: 'v1', kind: 'Pod', metadata, spec })).toEqual([
      'spec.hostNetwork',
      'spec.hostUsers',
      'spec.containers[0].livenessProbe.grpc',
      'spec.containers[0].securityContext.privileged',
      'spec.containers[0].ports[].hostPort',
      'spec.volumes[0].nfs',
      'spec.volumes[1].emptyDir.sizeLimit',
    ]);
  });
});
