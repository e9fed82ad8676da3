import { createHash } from 'node:crypto';
import { Readable, Writable } from 'node:stream';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect } from 'vitest';

const piece = 64 * 1024;
/** Collecting garbage for each piece would take the time of the test. */
const measureEvery = 8 << 20;
/** What the sink takes before it stops reading. */
const taste = 1 << 20;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Bytes that live objects of this process hold, without garbage: what the first pass found dead is freed by the second. */
export function liveBytes(): number {
  collectGarbage();
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

/** So many bytes, no piece like another; tells how many were asked for. */
export function countingSource(bytes: number) {
  const hash = createHash('sha256');
  const told = { pulled: 0, digest: () => hash.copy().digest('hex') };
  const stream = new Readable({
    highWaterMark: piece,
    read() {
      if (told.pulled >= bytes) return void this.push(null);
      const size = Math.min(piece, bytes - told.pulled);
      const chunk = Buffer.alloc(size, `${told.pulled} `);
      told.pulled += size;
      hash.update(chunk);
      this.push(chunk);
    },
  });
  return Object.assign(told, { stream });
}

/** Reads a first taste and then nothing until it is opened; from then on slowly. Keeps the most live bytes it saw. */
export function lazySink() {
  const hash = createHash('sha256');
  const told = { received: 0, peak: 0, digest: () => hash.copy().digest('hex'), open: () => {} };
  const opened = new Promise<void>((resolve) => {
    told.open = resolve;
  });
  let measuredAt = 0;
  const stream = new Writable({
    highWaterMark: 16 * 1024,
    async write(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      told.received += chunk.length;
      if (told.received - measuredAt >= measureEvery) {
        measuredAt = told.received;
        told.peak = Math.max(told.peak, liveBytes());
      }
      if (told.received >= taste) await opened;
      setImmediate(done);
    },
  });
  return Object.assign(told, { stream });
}

/** Resolves once `value`, no longer 0, has stopped rising. */
export async function standstill(value: () => number | Promise<number>): Promise<void> {
  let [last, same] = [0, 0];
  const look = async () => {
    const now = await value();
    same = now > 0 && now === last ? same + 1 : 0;
    last = now;
    return same;
  };
  await expect.poll(look, { interval: 200, timeout: 60_000 }).toBeGreaterThanOrEqual(8);
}
