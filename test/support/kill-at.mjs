// Preloaded into a worker process: ends it with SIGKILL at the effect that KILL_AT names, e.g. "after kube.create.pods#1".
import { subscribe } from 'node:diagnostics_channel';

const [, phase, name, count] = /^(before|after) ([^#]+)(?:#(\d+))?$/.exec(process.env.KILL_AT ?? '') ?? [];
let left = Number(count ?? 1);

if (phase !== undefined) {
  subscribe('windlass:effect', (message) => {
    if (message.phase !== phase || message.name !== name) return;
    left -= 1;
    if (left === 0) process.kill(process.pid, 'SIGKILL');
  });
}
