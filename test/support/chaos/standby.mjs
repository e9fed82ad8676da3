// Preloaded into a worker process: loads what a worker needs, then holds it back until the parent says start. After
// `watch` it tells the parent every effect; after `at` ("after kube.create.pods#2") it tells that it is there and kills,
// stops or blocks itself.
import { subscribe } from 'node:diagnostics_channel';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

await import(pathToFileURL(join(dirname(process.argv[1]), 'parts.js')).href);
const started = new Promise((resolve) => process.on('message', (message) => (message.start ? resolve() : arm(message))));
// A test run that is ended must not leave its victims behind.
process.on('disconnect', () => process.exit());
process.send({ warm: true });
await started;
process.channel.unref();

function arm({ watch, at, act }) {
  const counts = {};
  subscribe('windlass:effect', ({ phase, name }) => {
    const kind = `${phase} ${name}`;
    counts[kind] = (counts[kind] ?? 0) + 1;
    const point = `${kind}#${counts[kind]}`;
    if (watch) process.send({ point });
    if (point === at) acts[act]();
  });
  process.send({ armed: true });
}

const acts = {
  kill: () => process.kill(process.pid, 'SIGKILL'),
  stop: () => process.kill(process.pid, 'SIGSTOP'),
  // Past the lease and past the queue's lock.
  block() {
    process.send({ blocked: true });
    for (const until = Date.now() + 6000; Date.now() < until; );
  },
  term: () => process.kill(process.pid, 'SIGTERM'),
};
