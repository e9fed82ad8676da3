// Outlives the demo when that is killed: its stdin ends with the demo, and it then ends the demo's processes (last
// started first) and removes the folder. Lines on stdin: `+PID` started, `-PID` ended by the demo itself.
import { rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { endProcess } from './processes.mjs';

const [folder] = process.argv.slice(2);
const running = new Set();
for await (const line of createInterface({ input: process.stdin })) {
  if (line[0] === '+') running.add(Number(line.slice(1)));
  else running.delete(Number(line.slice(1)));
}
for (const pid of [...running].reverse()) await endProcess(pid);
await rm(folder, { recursive: true, force: true });
