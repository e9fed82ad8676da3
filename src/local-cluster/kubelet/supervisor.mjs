// Runs inside a Pod's sandbox (one each), or once for all Pods in path mode. It is the only way in: it starts the
// containers' processes and execs, delivers signals and opens connections to the Pod's loopback, for a kubelet that may
// not enter the namespaces itself. Plain JavaScript without dependencies, because it is copied next to the Pods' data.
import { spawn } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  lstatSync,
  mkdirSync,
  constants as openFlags,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
} from 'node:fs';
import { connect, createServer } from 'node:net';
import { constants } from 'node:os';
import { createPipes } from './supervisor-pipes.mjs';

/** Frames after the request line of a `run`: [1 byte type][4 bytes length][payload]. The kubelet's half is supervisor-client.ts. */
const toClient = { started: 0, stdout: 1, stderr: 2, exit: 3 };
const fromClient = { stdin: 0, stdinEnd: 1, signal: 2, resize: 3 };

const { socket: socketPath, paths, pipes: pipesFolder, open = [], remove = [] } = JSON.parse(process.argv[2]);
const pipes = createPipes(pipesFolder);
const ownNamespace = link('/proc/self/ns/mnt');

/** Container id → { namespaces, runs }: what must die with the container's main process. */
const groups = new Map();
/** The first container's main process: what a `kill 1` inside the Pod means. */
let first;

function frame(type, payload) {
  const body = Buffer.isBuffer(payload) ? payload : Buffer.from(JSON.stringify(payload));
  const head = Buffer.alloc(5);
  head[0] = type;
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}

/** A PID 1 gets only the signals it handles (the kernel drops the others, SIGKILL excepted); main processes are treated alike. */
function catches(pid, signal) {
  try {
    const mask = /^SigCgt:\s*([0-9a-f]+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    return mask === null || ((BigInt(`0x${mask[1]}`) >> BigInt(constants.signals[signal] - 1)) & 1n) === 1n;
  } catch (error) {
    // No /proc (not Linux): deliver. The process is gone: delivering is harmless.
    return error.code === 'ENOENT' || error.code === 'ESRCH';
  }
}

function send(pid, signal) {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (error.code !== 'ESRCH' && error.code !== 'EPERM') throw error;
  }
}

function signalRun(run, { signal, onlyIfCaught }) {
  const pid = run.innerPid ?? run.child.pid;
  if (pid === undefined || run.ended) return;
  if (onlyIfCaught && !catches(pid, signal)) return;
  send(pid, signal);
}

/** Private memory of a process, in bytes; 0 when it is gone. */
function memoryOf(pid) {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    return Number(/^RssAnon:\s*(\d+)/m.exec(status)?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

/** No cgroups here: looks every second, and ends the whole container as the kernel would. */
function watchMemory(run, request) {
  const timer = setInterval(() => {
    const used = leftovers(request.group, run.group).reduce((sum, pid) => sum + memoryOf(pid), 0);
    if (used <= request.memoryLimit) return;
    run.outOfMemory = true;
    signalRun(run, { signal: 'SIGKILL', onlyIfCaught: false });
  }, 1000);
  run.child.once('exit', () => clearInterval(timer));
}

function link(path) {
  try {
    return readlinkSync(path);
  } catch {
    // Ended, or not ours to look at: not a process of the group.
    return undefined;
  }
}

function environmentOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1');
  } catch {
    return '';
  }
}

/** Processes that a container left: by mount namespace in a sandbox, by the marker in their environment in path mode. */
function leftovers(id, group) {
  let names;
  try {
    names = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && name !== '1' && Number(name) !== process.pid);
  } catch {
    return [];
  }
  const marker = `WINDLASS_CONTAINER_ID=${id}\0`;
  const owned = paths ? (pid) => environmentOf(pid).includes(marker) : (pid) => group.namespaces.has(link(`/proc/${pid}/ns/mnt`));
  return names.filter(owned).map(Number);
}

/** Kills what is left of a container; its next start must find ports and files free. */
function killGroup(id, then, rounds = 40) {
  const group = groups.get(id);
  const left = group === undefined ? [] : leftovers(id, group);
  for (const run of group?.runs ?? []) if (!run.ended && run.child.pid !== undefined) send(-run.child.pid, 'SIGKILL');
  for (const pid of left) send(pid, 'SIGKILL');
  if (left.length === 0 || rounds === 0) {
    groups.delete(id);
    then();
  } else setTimeout(() => killGroup(id, then, rounds - 1), 5);
}

/** bwrap names its child on fd 3; the child is started once it is no longer bwrap itself. */
function watchStart(run, started) {
  let text = '';
  run.child.stdio[3].on('data', (chunk) => {
    text += chunk;
    const found = /"child-pid":\s*(\d+)/.exec(text);
    if (found === null || run.innerPid !== undefined) return;
    run.innerPid = Number(found[1]);
    const poll = () => {
      if (run.ended) return;
      const exe = link(`/proc/${run.innerPid}/exe`);
      if (exe !== undefined && !exe.endsWith('/bwrap')) {
        // Whoever ended meanwhile has none; and what shares our own must never count as a container's: it would be killed.
        const namespace = link(`/proc/${run.innerPid}/ns/mnt`);
        if (namespace !== undefined && namespace !== ownNamespace) run.group.namespaces.add(namespace);
        started();
      } else setTimeout(poll, 1);
    };
    poll();
  });
}

/** Starts the program, its outputs on pipes of our own. */
function spawnPiped({ argv, env, cwd, sandboxed, stdin }) {
  const outputs = [pipes.open(), pipes.open()];
  const ends = outputs.map(({ childEnd }) => childEnd);
  const stdio = [stdin ? 'pipe' : 'ignore', ...ends, sandboxed ? 'pipe' : 'ignore'];
  const child = spawn(argv[0], argv.slice(1), { env, cwd, stdio, detached: true });
  for (const end of ends) closeSync(end);
  child.stdin?.on('error', () => child.stdin.destroy());
  return { child, stdout: outputs[0].stream, stderr: outputs[1].stream };
}

function run(socket, request, rest) {
  const group = groups.get(request.group) ?? { namespaces: new Set(), runs: new Set() };
  groups.set(request.group, group);
  const state = { ...spawnPiped(request), group, ended: false, started: false, innerPid: undefined, trouble: '' };
  const { child, stdout, stderr } = state;
  group.runs.add(state);
  if (request.main && first === undefined) first = state;
  // Without a sandbox every look would read the environment of all processes of the machine.
  if (request.memoryLimit !== undefined && !paths) watchMemory(state, request);
  const write = (type, payload) => {
    if (socket.destroyed || socket.write(frame(type, payload))) return;
    stdout.pause();
    stderr.pause();
  };
  socket.on('drain', () => {
    stdout.resume();
    stderr.resume();
  });
  state.begin = () => {
    state.started = true;
    write(toClient.started, { pid: state.innerPid ?? child.pid });
    if (state.trouble !== '') write(toClient.stderr, Buffer.from(state.trouble, 'latin1'));
    state.trouble = '';
  };
  if (request.sandboxed) watchStart(state, state.begin);
  else child.on('spawn', state.begin);
  // Until the program runs, what comes on stderr is bwrap's own complaint: the reason of a failed start.
  stderr.on('data', (chunk) => {
    if (state.started || !request.sandboxed) write(toClient.stderr, chunk);
    else state.trouble += chunk.toString('latin1');
  });
  stdout.on('data', (chunk) => write(toClient.stdout, chunk));
  watchEnd(socket, state, request);
  frames(socket, rest, (type, payload) => {
    if (type === fromClient.stdin) {
      if (child.stdin?.writable && !child.stdin.write(payload)) socket.pause();
    } else if (type === fromClient.stdinEnd) child.stdin?.end();
    else if (type === fromClient.signal) signalRun(state, JSON.parse(payload));
    else if (type === fromClient.resize) resize(state, JSON.parse(payload));
  });
  for (const event of ['drain', 'close']) child.stdin?.on(event, () => socket.resume());
}

/** Settles when both outputs have ended. */
function outputsEnd({ stdout, stderr }) {
  return Promise.all([stdout, stderr].map((stream) => new Promise((resolve) => stream.once('close', resolve))));
}

/** Calls back when the outputs have ended, or when they are quiet: a background child may hold an exec's for ever. */
function whenQuiet(socket, { stdout, stderr }, closed, then) {
  let timer;
  const again = () => {
    clearTimeout(timer);
    // Not quiet, but waiting for a slow reader.
    timer = setTimeout(() => (socket.writableNeedDrain ? again() : then()), 300);
  };
  stdout.on('data', again);
  stderr.on('data', again);
  again();
  void closed.then(() => {
    clearTimeout(timer);
    then();
  });
}

function watchEnd(socket, state, request) {
  const { child, stdout, stderr } = state;
  const closed = outputsEnd(state);
  let isReported = false;
  const report = (value) => {
    if (isReported) return;
    isReported = true;
    state.group.runs.delete(state);
    if (first === state) first = undefined;
    // A program so short that it ended before it was seen running: what it wrote is its own.
    const isOwn = value.error === undefined && !/^bwrap: /.test(state.trouble);
    if (!state.started && isOwn) state.begin();
    const failed = !state.started && value.error === undefined ? { error: state.trouble.trim() } : {};
    socket.end(frame(toClient.exit, { ...value, ...failed }));
    for (const stream of [stdout, stderr]) stream.destroy();
  };
  child.on('error', (error) => {
    state.ended = true;
    report({ exitCode: 128, error: `${error.code ?? error.message}` });
  });
  child.on('exit', (code, signal) => {
    state.ended = true;
    const value = { exitCode: code ?? 128 + constants.signals[signal], outOfMemory: state.outOfMemory };
    if (request.main) killGroup(request.group, () => void closed.then(() => report(value)));
    else whenQuiet(socket, state, closed, () => report(value));
  });
  socket.on('close', () => {
    if (!state.ended && child.pid !== undefined) send(-child.pid, 'SIGKILL');
    if (!state.ended && state.innerPid !== undefined) send(state.innerPid, 'SIGKILL');
  });
}

/** The terminal of a tty run is the one of its `script` child; stty on it is what a terminal window's resize is. */
function resize(state, { columns, rows }) {
  const pid = state.innerPid ?? state.child.pid;
  if (pid === undefined || state.ended) return;
  const child = [pid, ...childrenOf(pid)].find((one) => link(`/proc/${one}/fd/0`)?.startsWith('/dev/pts/'));
  if (child === undefined) return;
  const terminal = openSync(`/proc/${child}/fd/0`, openFlags.O_RDWR | openFlags.O_NOCTTY);
  const stty = spawn('stty', ['cols', String(columns), 'rows', String(rows)], { stdio: [terminal, 'ignore', 'ignore'] });
  // Without stty the terminal keeps its size, which is all that is lost.
  stty.on('error', () => {});
  closeSync(terminal);
}

function childrenOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
  } catch {
    return [];
  }
}

function frames(socket, rest, onFrame) {
  let buffer = rest;
  const take = () => {
    while (buffer.length >= 5) {
      const end = 5 + buffer.readUInt32BE(1);
      if (buffer.length < end) break;
      onFrame(buffer[0], buffer.subarray(5, end));
      buffer = buffer.subarray(end);
    }
  };
  socket.on('data', (chunk) => {
    buffer = buffer.length === 0 ? chunk : Buffer.concat([buffer, chunk]);
    take();
  });
  take();
}

/** Answers a line {ok} or {error}, then the connection is the bytes of the port. */
function dial(socket, { hosts, port }, rest) {
  const errors = [];
  const attempt = ([host, ...others]) => {
    const upstream = connect({ host, port, allowHalfOpen: true });
    const refused = (error) => {
      errors.push(`${host}: ${error.code}`);
      if (others.length > 0) attempt(others);
      else socket.end(`${JSON.stringify({ error: errors.join(', ') })}\n`);
    };
    upstream.once('error', refused);
    upstream.once('connect', () => {
      upstream.off('error', refused);
      upstream.on('error', () => socket.destroy());
      socket.on('error', () => upstream.destroy());
      socket.on('close', () => upstream.destroy());
      upstream.on('close', () => socket.destroySoon());
      socket.write(`${JSON.stringify({ ok: true })}\n`);
      if (rest.length > 0) upstream.write(rest);
      socket.pipe(upstream);
      upstream.pipe(socket);
    });
  };
  attempt(hosts);
}

function kindOf(path) {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return 'nothing';
  if (realpathSync(path) !== path) return 'link';
  return { file: found.isFile(), directory: found.isDirectory(), size: found.size };
}

/** Small questions about files that only this mount namespace sees (memory volumes). */
function files(socket, { mkdir, stat }) {
  try {
    for (const path of mkdir ?? []) mkdirSync(path, { recursive: true, mode: 0o777 });
    const kind = stat === undefined ? undefined : kindOf(stat);
    socket.end(`${JSON.stringify({ ok: true, kind })}\n`);
  } catch (error) {
    socket.end(`${JSON.stringify({ error: error.message })}\n`);
  }
}

const operations = { run, dial, files };

const server = createServer({ allowHalfOpen: true }, (socket) => {
  socket.on('error', () => socket.destroy());
  let buffer = Buffer.alloc(0);
  const onData = (chunk) => {
    buffer = Buffer.concat([buffer, chunk]);
    const end = buffer.indexOf(10);
    if (end < 0) return;
    socket.off('data', onData);
    const request = JSON.parse(buffer.subarray(0, end).toString());
    operations[request.op](socket, request, buffer.subarray(end + 1));
  };
  socket.on('data', onData);
});

/** The kubelet holds our stdin: its end is the end of everything here, however the kubelet died. */
process.stdin.on('end', () => {
  for (const [id, group] of groups) {
    for (const state of group.runs) if (state.child.pid !== undefined) send(-state.child.pid, 'SIGKILL');
    for (const pid of leftovers(id, group)) send(pid, 'SIGKILL');
  }
  for (const folder of remove) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  process.exit(0);
});
process.stdin.resume();

for (const signal of ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGUSR1', 'SIGUSR2']) {
  // In path mode a signal to us comes from a terminal, not from inside a Pod: the kubelet's end is what counts.
  process.on(signal, () => {
    if (!paths && first !== undefined) signalRun(first, { signal, onlyIfCaught: true });
  });
}

// A fresh tmpfs is 0755; memory volumes are everybody's.
for (const folder of open) chmodSync(folder, 0o1777);
server.listen(socketPath, () => process.stdout.write('ready\n'));
