import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/** Asks a process to end and, when it does not within 15 s (a worker drains first), ends it. */
export async function endProcess(pid) {
  if (!signal(pid, 'SIGTERM')) return;
  const deadline = Date.now() + 15_000;
  while (isAlive(pid)) {
    if (Date.now() > deadline) signal(pid, 'SIGKILL');
    await delay(20);
  }
}

function signal(pid, name) {
  try {
    return process.kill(pid, name);
  } catch (error) {
    if (error.code === 'ESRCH') return false;
    throw error;
  }
}

function isAlive(pid) {
  return processTable().some((entry) => entry.pid === pid);
}

/** Every process that descends from `pid`, with what tells it from a later one of the same number. */
export function descendants(pid) {
  const table = processTable();
  const found = [];
  for (let parents = [pid]; parents.length > 0; ) {
    const children = table.filter((entry) => parents.includes(entry.parent));
    found.push(...children);
    parents = children.map((entry) => entry.pid);
  }
  return found;
}

/** Which of these processes still run. */
export function stillRunning(processes) {
  const table = processTable();
  return processes.filter(({ pid, started }) => table.some((entry) => entry.pid === pid && entry.started === started));
}

/** [{pid, parent, started}] of everything that runs; a zombie has ended. */
function processTable() {
  return existsSync('/proc/self/stat') ? fromProc() : fromPs();
}

function fromProc() {
  const table = [];
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    let stat;
    try {
      stat = readFileSync(`/proc/${name}/stat`, 'utf8');
    } catch (error) {
      // Ended while we looked.
      if (error.code === 'ENOENT' || error.code === 'ESRCH') continue;
      throw error;
    }
    // The second field is the program's name in parentheses and may hold anything.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] !== 'Z') table.push({ pid: Number(name), parent: Number(fields[1]), started: fields[19] });
  }
  return table;
}

function fromPs() {
  const text = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,stat=,lstart='], { encoding: 'utf8' });
  return text
    .split('\n')
    .map((line) => /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(.*)$/.exec(line))
    .filter((match) => match !== null && !match[3].startsWith('Z'))
    .map(([, pid, parent, , started]) => ({ pid: Number(pid), parent: Number(parent), started }));
}
