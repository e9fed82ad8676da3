// Start to /readyz and memory of the embedded cluster as it is shipped: node scripts/measure-cluster.mjs [PODS]
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { parse } from 'yaml';
import { build } from './build.mjs';
import { root } from './lib/paths.mjs';

/** A cluster in a process of its own; its kubeconfig is written once /readyz has answered. */
async function start() {
  const dir = mkdtempSync(join(tmpdir(), 'windlass-measure-'));
  const kubeconfig = join(dir, 'kubeconfig');
  const started = performance.now();
  const args = [join(root, 'dist/cli/main.js'), 'local-cluster', '--kubeconfig', kubeconfig];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'ignore'] });
  while (!existsSync(kubeconfig)) await delay(1);
  const readyMs = Math.round(performance.now() - started);
  const close = async () => {
    child.kill('SIGTERM');
    await once(child, 'exit');
    rmSync(dir, { recursive: true });
  };
  return { pid: child.pid, kubeconfig, readyMs, close };
}

function client(kubeconfig) {
  const { clusters, users } = parse(readFileSync(kubeconfig, 'utf8'));
  const { server, 'certificate-authority-data': ca } = clusters[0].cluster;
  const dispatcher = new Agent({ connect: { ca: Buffer.from(ca, 'base64').toString() } });
  const headers = { authorization: `Bearer ${users[0].user.token}`, 'content-type': 'application/json' };
  return async (method, path, body) => {
    const reply = await request(`${server}/api/v1/namespaces/default/${path}`, {
      method,
      dispatcher,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
    });
    return reply.body.json();
  };
}

const podOf = (name) => ({
  metadata: { name },
  spec: {
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: 1,
    containers: [{ name: 'main', image: 'busybox', command: ['sleep', '100000'] }],
  },
});

/** MiB of the process, and of all it started with what they share counted once. */
function memory(pid) {
  const rows = execFileSync('ps', ['-eo', 'pid=,ppid=,rss='], { encoding: 'utf8', maxBuffer: 1e8 }).trim().split('\n');
  const all = rows.map((row) => row.trim().split(/\s+/).map(Number));
  const family = new Set([pid]);
  for (let size = 0; size < family.size; ) {
    size = family.size;
    for (const [child, parent] of all) if (family.has(parent)) family.add(child);
  }
  let shared = 0;
  for (const member of family) {
    const file = `/proc/${member}/smaps_rollup`;
    if (existsSync(file)) shared += Number(/^Pss: +(\d+)/m.exec(readFileSync(file, 'utf8'))?.[1] ?? 0);
  }
  const mebibytes = (kibibytes) => Math.round(kibibytes / 1024);
  return { rss: mebibytes(all.find(([id]) => id === pid)[2]), family: mebibytes(shared), processes: family.size };
}

await build();
const times = [];
for (let index = 0; index < 5; index += 1) {
  const cluster = await start();
  times.push(cluster.readyMs);
  await cluster.close();
}
process.stdout.write(`start to /readyz, ms: ${times.join(' ')}\n`);

const pods = Number(process.argv[2] ?? 500);
const cluster = await start();
const call = client(cluster.kubeconfig);
process.stdout.write(`empty: ${JSON.stringify(memory(cluster.pid))}\n`);
const started = performance.now();
for (let index = 0; index < pods; index += 1) await call('POST', 'pods', podOf(`p${index}`));
const running = async () => (await call('GET', 'pods?fieldSelector=status.phase%3DRunning')).items.length;
while ((await running()) < pods) await delay(500);
const seconds = Math.round((performance.now() - started) / 1000);
process.stdout.write(`${pods} Pods after ${seconds} s: ${JSON.stringify(memory(cluster.pid))}\n`);
await cluster.close();
process.exit(0);
