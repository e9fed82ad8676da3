import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { access, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';

/** $KUBECTL, else the one on PATH. */
async function findKubectl(): Promise<string | undefined> {
  const { KUBECTL, PATH = '' } = process.env;
  for (const file of KUBECTL ? [KUBECTL] : PATH.split(delimiter).map((folder) => join(folder, 'kubectl'))) {
    const found = await access(file).then(
      () => true,
      () => false,
    );
    if (found) return file;
  }
  return undefined;
}

const kubectl = await findKubectl();

interface Run {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

const manifest = `
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: "busybox:local", command: [sh, -c, "echo ready; trap 'exit 0' TERM; while true; do sleep 0.2; done"]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {level: "1"}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, storageClassName: immediate}
`;

function suite(): void {
  let cluster: EmbeddedCluster;
  let folder: string;

  const run = (args: string[], input = ''): Promise<Run> =>
    new Promise((resolve, reject) => {
      const child = spawn(kubectl!, ['--kubeconfig', cluster.kubeconfig, '--cache-dir', join(folder, 'cache'), ...args], {
        cwd: folder,
      });
      let [out, err] = ['', ''];
      child.stdout.on('data', (data) => {
        out += data;
      });
      child.stderr.on('data', (data) => {
        err += data;
      });
      child.on('error', reject);
      child.on('close', (code) => resolve({ code, out, err }));
      child.stdin.end(input);
    });
  /** Lets it print until the pattern is there, then ends it. */
  const until = (args: string[], pattern: RegExp): Promise<string> =>
    new Promise((resolve, reject) => {
      const child = spawn(kubectl!, ['--kubeconfig', cluster.kubeconfig, '--cache-dir', join(folder, 'cache'), ...args]);
      let out = '';
      child.stdout.on('data', (data) => {
        out += data;
        if (pattern.test(out)) child.kill();
      });
      child.on('error', reject);
      child.on('close', () => resolve(out));
    });
  /** Runs it and returns what it printed; a failure fails the test with its own words. */
  const ok = async (args: string[], input?: string): Promise<string> => {
    const { code, out, err } = await run(args, input);
    if (code !== 0) throw new Error(`kubectl ${args.join(' ')} ended with ${code}: ${err}`);
    return out;
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'windlass-kubectl-'));
    cluster = await startCluster();
    await ok(['apply', '-f', '-'], manifest);
    await ok(['wait', '--for=condition=Ready', 'pod/web', '--timeout=20s']);
  });
  afterAll(async () => {
    await cluster.close();
    await rm(folder, { recursive: true });
  });

  it('gets in every output form', async () => {
    expect(await ok(['get', 'pods'])).toMatch(/NAME\s+READY\s+STATUS\s+RESTARTS\s+AGE\nweb\s+1\/1\s+Running\s+0/);
    expect(await ok(['get', 'pods', '-o', 'wide'])).toContain('NOMINATED NODE');
    expect(JSON.parse(await ok(['get', 'pod', 'web', '-o', 'json'])).kind).toBe('Pod');
    expect(await ok(['get', 'cm', 'settings', '-o', 'yaml'])).toContain('level: "1"');
    expect(await ok(['get', 'pods', '-o', 'yaml'])).toMatch(/^apiVersion: v1\nitems:\n[\s\S]*kind: List\n/);
    expect(await ok(['get', 'pods', '-o', 'jsonpath-as-json={.items[*].metadata.name}'])).toContain('"web"');
    expect(JSON.parse(await ok(['get', '--raw', '/api/v1/namespaces/default/pods'])).kind).toBe('PodList');
    expect(await ok(['get', 'pods', '-o', 'jsonpath={.items[*].metadata.name}'])).toBe('web');
    expect(await ok(['get', 'pods', '-l', 'app=web', '--field-selector', 'status.phase=Running', '-o', 'name'])).toBe(
      'pod/web\n',
    );
    expect(await ok(['get', 'pods', '-o', 'custom-columns=N:.metadata.name,P:.status.phase', '--no-headers'])).toMatch(
      /^web\s+Running\n$/,
    );
    expect(await ok(['get', 'pods', '-o', 'go-template={{range .items}}{{.metadata.name}}{{end}}'])).toBe('web');
    expect(await ok(['get', 'pods', '-A', '--show-labels'])).toMatch(/default\s+web\s.*app=web/);
    expect(await ok(['get', 'pvc,pv,sc,nodes,ns,svc,events,sa,secrets,quota,leases'])).toContain('persistentvolumeclaim/data');
    expect(JSON.parse(await ok(['get', '--raw', '/version'])).major).toBe('1');
    expect(await ok(['get', 'all'])).toContain('service/web');
  });

  it('applies a second time with a change, and replaces', async () => {
    const changed = manifest.replace('level: "1"', 'level: "2"').replace('port: 80', 'port: 81');
    const said = await ok(['apply', '-f', '-'], changed);
    expect(said).toContain('configmap/settings configured');
    expect(said).toContain('pod/web unchanged');
    expect(await ok(['get', 'svc', 'web', '-o', 'jsonpath={.spec.ports[*].port}'])).toBe('81');
    const map = (await ok(['get', 'cm', 'settings', '-o', 'yaml'])).replace('level: "2"', 'level: "3"');
    expect(await ok(['replace', '-f', '-'], map)).toContain('replaced');
    expect(await ok(['get', 'cm', 'settings', '-o', 'jsonpath={.data.level}'])).toBe('3');
  });

  it('labels, annotates and patches in three ways', async () => {
    await ok(['label', 'cm', 'settings', 'a=b']);
    await ok(['annotate', 'cm', 'settings', 'c=d']);
    await ok(['patch', 'cm', 'settings', '-p', '{"data":{"strategic":"1"}}']);
    await ok(['patch', 'cm', 'settings', '--type=merge', '-p', '{"data":{"merge":"1"}}']);
    await ok(['patch', 'cm', 'settings', '--type=json', '-p', '[{"op":"add","path":"/data/json","value":"1"}]']);
    const map = JSON.parse(await ok(['get', 'cm', 'settings', '-o', 'json']));
    expect(map.data).toMatchObject({ strategic: '1', merge: '1', json: '1' });
    expect([map.metadata.labels.a, map.metadata.annotations.c]).toEqual(['b', 'd']);
    await ok(['label', 'cm', 'settings', 'a-']);
    expect(JSON.parse(await ok(['get', 'cm', 'settings', '-o', 'json'])).metadata.labels).toBeUndefined();
  });

  it('executes with stdin and passes the exit code on', async () => {
    expect(await ok(['exec', '-i', 'web', '--', 'cat'], 'through stdin')).toBe('through stdin');
    const ended = await run(['exec', 'web', '--', 'sh', '-c', 'echo out; echo err >&2; exit 7']);
    expect(ended).toMatchObject({ code: 7, out: 'out\n', err: expect.stringMatching(/^err\n/) });
    const answered = await run(['exec', '-i', 'web', '-c', 'main', '--', 'sh', '-c', 'wc -c; exit 3'], 'x'.repeat(200_000));
    expect([answered.code, Number(answered.out)]).toEqual([3, 200_000]);
    expect((await run(['exec', 'missing', '--', 'ls'])).err).toContain('pods "missing" not found');
  });

  it('copies 10 MB both ways', async () => {
    const data = randomBytes(10_000_000);
    await writeFile(join(folder, 'there.bin'), data);
    await ok(['cp', 'there.bin', 'web:/tmp/copied.bin']);
    await ok(['cp', 'web:/tmp/copied.bin', 'back.bin']);
    expect((await readFile(join(folder, 'back.bin'))).equals(data)).toBe(true);
    await ok(['exec', 'web', '--', 'sh', '-c', 'mkdir /tmp/folder && echo inside > /tmp/folder/file']);
    await ok(['cp', '-c', 'main', 'web:/tmp/folder', 'folder']);
    expect(await readFile(join(folder, 'folder/file'), 'utf8')).toBe('inside\n');
  });

  it('shows logs: whole, of a container, followed to the end, of the previous run', async () => {
    expect(await ok(['logs', 'web', '-c', 'main'])).toBe('ready\n');
    await ok([
      'run',
      'short',
      '--image=busybox:local',
      '--restart=Never',
      '--command',
      '--',
      'sh',
      '-c',
      'for i in 1 2 3; do echo $i; sleep 0.1; done',
    ]);
    await ok(['wait', '--for=jsonpath={.status.phase}=Succeeded', 'pod/short', '--timeout=20s']);
    expect(await ok(['logs', '-f', 'short'])).toBe('1\n2\n3\n');
    expect((await run(['logs', '-p', 'web'])).err).toContain('previous terminated container');
    expect(await ok(['logs', '--tail=1', 'short'])).toBe('3\n');
    await ok(['delete', 'pod', 'short']);
    await ok(['wait', '--for=delete', 'pod/short', '--timeout=20s']);
  });

  it('shows logs of one container of several, and of the run before a restart', async () => {
    const shell = (name: string, script: string, more = '') =>
      `  - {name: ${name}, image: "busybox:local", command: [sh, -c, "${script}"]${more}}\n`;
    const once = 'if [ -e /s/ran ]; then echo second; exec sleep 1000; fi; touch /s/ran; echo first; exit 1';
    const mount = ', volumeMounts: [{name: s, mountPath: /s}]';
    const body = `apiVersion: v1\nkind: Pod\nmetadata: {name: two}\nspec:\n  terminationGracePeriodSeconds: 0\n  volumes: [{name: s, emptyDir: {}}]\n  containers:\n`;
    await ok(['create', '-f', '-'], body + shell('again', once, mount) + shell('calm', 'echo calm; exec sleep 1000'));
    await ok([
      'wait',
      '--for=jsonpath={.status.containerStatuses[?(@.name=="again")].restartCount}=1',
      'pod/two',
      '--timeout=30s',
    ]);
    await ok(['wait', '--for=condition=Ready', 'pod/two', '--timeout=30s']);
    expect(await ok(['logs', 'two', '-c', 'calm'])).toBe('calm\n');
    expect(await ok(['logs', 'two', '-c', 'again', '-p'])).toBe('first\n');
    expect(await ok(['logs', 'two', '-c', 'again'])).toBe('second\n');
    expect(await ok(['logs', 'two', '--all-containers', '--prefix'])).toContain('[pod/two/calm] calm');
    await ok(['delete', 'pod', 'two']);
  });

  it('describes everything', async () => {
    const described = await ok(['describe', 'pod', 'web']);
    expect(described).toMatch(/Events:[\s\S]*Started/);
    expect(await ok(['describe', 'node', 'local'])).toContain('web');
    for (const kind of ['pvc', 'pv', 'sc', 'ns', 'svc', 'cm', 'sa']) expect(await ok(['describe', kind])).toContain('Name:');
  });

  it('creates, watches and deletes', async () => {
    const body = JSON.stringify({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'own' } });
    expect(await ok(['create', '-f', '-'], body)).toContain('namespace/own created');
    expect((await run(['create', '-f', '-'], body)).err).toContain('AlreadyExists');
    await ok(['-n', 'own', 'run', 'one', '--image=busybox:local', '--command', '--', 'sleep', '1000']);
    const watching = until(['-n', 'own', 'get', 'pods', '-w', '--output-watch-events'], /DELETED/);
    await ok(['-n', 'own', 'wait', '--for=condition=Ready', 'pod/one', '--timeout=20s']);
    await ok(['-n', 'own', 'delete', 'pod', 'one', '--grace-period=1']);
    await ok(['delete', 'ns', 'own']);
    expect((await run(['get', 'ns', 'own'])).err).toContain('namespaces "own" not found');
    const out = await watching;
    expect(out).toMatch(/EVENT\s+NAME\s+READY/);
    expect(out).toMatch(/MODIFIED\s+one\s+1\/1\s+(Running|Terminating)/);
  });

  it('is told in a sentence what is not there', async () => {
    const deployment = JSON.stringify({ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'd' } });
    for (const verb of ['apply', 'create'])
      expect((await run([verb, '-f', '-'], deployment)).err).toMatch(/no matches for kind "Deployment" in version "apps\/v1"/);
    expect((await run(['get', 'deployments'])).err).toContain('the server doesn\'t have a resource type "deployments"');
    const protobuf = await run(['create', 'configmap', 'x', '--from-literal=a=b']);
    // kubectl 1.31 sends JSON here, which is taken.
    if (protobuf.code === 0) expect(protobuf.out).toContain('created');
    else expect(protobuf.err).toContain('kubectl apply -f');
    const warned = JSON.stringify({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'warned' },
      spec: { hostNetwork: true, nodeSelector: { no: 'node' }, containers: [{ name: 'c', image: 'busybox:local' }] },
    });
    expect((await run(['create', '-f', '-'], warned)).err).toContain(
      'Warning: spec.hostNetwork is not implemented by the embedded cluster',
    );
    expect(await ok(['get', 'events', '--field-selector', 'involvedObject.name=warned'])).toContain('FieldNotImplemented');
  });
}

/** Its requests are covered over HTTP by the other suites, so a machine without it loses the stock client only: loudly. */
function absent(): void {
  it('is not on this machine', () => {
    console.warn('no kubectl on PATH and no $KUBECTL: the kubectl suite did not run');
    expect(process.env.KUBECTL ?? '').toBe('');
  });
}

describe('the stock kubectl', kubectl ? suite : absent);
