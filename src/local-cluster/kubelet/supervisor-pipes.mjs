// Real pipes for what the supervisor's children write. Node's own are socket pairs, which cannot be opened again: with
// those, `echo >/dev/stderr` fails in a container. (Stdin stays one: a named pipe opened after its end blocks for ever.)
import { spawnSync } from 'node:child_process';
import { closeSync, constants, mkdirSync, openSync, unlinkSync } from 'node:fs';
import { Socket } from 'node:net';

const batch = 32;

/** Makes pipes out of named ones in a folder of ours, whose names are gone as soon as both ends are open. */
export function createPipes(folder) {
  const names = [];
  let counter = 0;
  const refill = () => {
    mkdirSync(folder, { recursive: true });
    for (let index = 0; index < batch; index++) names.push(`${folder}/${counter++}`);
    const { status, stderr, error } = spawnSync('mkfifo', names);
    if (status !== 0) throw error ?? new Error(`mkfifo: ${stderr}`);
  };
  return {
    /** `childEnd` is a file descriptor to write to, for spawn, and to be closed after it; `stream` is our end. */
    open() {
      if (names.length === 0) refill();
      const name = names.pop();
      // Open for both first: neither of the others then waits for its partner.
      const both = openSync(name, constants.O_RDWR | constants.O_NONBLOCK);
      const childEnd = openSync(name, constants.O_WRONLY);
      const ourEnd = openSync(name, constants.O_RDONLY | constants.O_NONBLOCK);
      closeSync(both);
      unlinkSync(name);
      const stream = new Socket({ fd: ourEnd, readable: true, writable: false });
      stream.on('error', () => stream.destroy());
      return { childEnd, stream };
    },
  };
}
