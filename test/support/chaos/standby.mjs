// Preloaded into a worker process: loads what a worker needs, then holds it back until the parent says start. After
// `watch` it tells the parent every effect; after `at` ("after kube.create.pods#2") it tells that it is there and kills,
// stops or blocks itself; after `hunt` it does so, once, at the first effect that no victim of the same hunt did it at.
import { subscribe } from 'node:diagnostics_channel';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

await import(pathToFileURL(join(dirname(process.argv[1]), 'parts.js')).href);
const started = new Promise((resolve) => process.on('message', (message) => (message.start ? resolve() : arm(message))));
// A test run that is ended must not leave its victims behind.
process.on('disconnect', () => process.exit());
process.send({ warm: true });
await started;
process.channel.unref();

function arm({ watch, at, act, hunt }) {
  const counts = {};
  let acted = false;
  subscribe('windlass:effect', ({ phase, name }) => {
    const kind = `${phase} ${name}`;
    counts[kind] = (counts[kind] ?? 0) + 1;
    const point = `${kind}#${counts[kind]}`;
    if (watch) process.send({ point });
    if (point !== at && (acted || !hunt || !isNew(hunt, point))) return;
    acted = true;
    acts[act]();
  });
  process.send({ armed: true });
}

/** Victims of one hunt run beside each other: a file that only one of them can make says whose point it is. */
function isNew(hunt, point) {
  if (new RegExp(hunt.repeats).test(point)) return false;
  if (hunt.skip > 0) {
    hunt.skip -= 1;
    return false;
  }
  try {
    writeFileSync(join(hunt.folder, encodeURIComponent(point)), '', { flag: 'wx' });
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
  writeFileSync(join(hunt.folder, `${process.pid}.point`), point);
  return true;
}

const acts = {
  kill: () => process.kill(process.pid, 'SIGKILL'),
  stop: () => process.kill(process.pid, 'SIGSTOP'),
  // Past the lease and past the queue's lock.
  block() {
    process.send({ blocked: true });
    for (const until = Date.now() + 6000; Date.now() < until; );
  },
  // Handled here and now: one that is sent comes when the loop gets to it, which may be stages later.
  term: () => process.emit('SIGTERM', 'SIGTERM'),
};
