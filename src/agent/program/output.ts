import type { Readable } from 'node:stream';
import type { Mask } from './mask.ts';

/** How long output may be silent after its process ended before we take it that a background process merely keeps it open. */
const silenceMs = 300;

/**
 * Hands every masked piece of a stream to the sink, until its end, and goes on when `until` (the end of the process) has
 * passed and nothing came for a moment: what was left in the background holds the pipe open for as long as it lives.
 * Such output is still delivered, after this has returned.
 */
export async function captureMasked(
  stream: Readable,
  mask: Mask,
  until: Promise<unknown>,
  sink: (piece: Buffer) => void,
): Promise<void> {
  const masked = mask.stream();
  let lastPiece = Date.now();
  stream.on('data', (chunk: Buffer) => {
    lastPiece = Date.now();
    const piece = masked.push(chunk);
    if (piece.length > 0) sink(piece);
  });
  const closed = new Promise<true>((resolve) => {
    const finish = () => {
      const rest = masked.end();
      if (rest.length > 0) sink(rest);
      resolve(true);
    };
    stream.once('close', finish);
  });
  await Promise.race([closed, until.then(() => silence(() => lastPiece, closed))]);
}

async function silence(lastPiece: () => number, closed: Promise<true>): Promise<void> {
  const endedAt = Date.now();
  for (;;) {
    const quietFor = Date.now() - Math.max(lastPiece(), endedAt);
    if (quietFor >= silenceMs) return;
    if (await Promise.race([closed, later(silenceMs - quietFor)])) return;
  }
}

function later(ms: number): Promise<false> {
  return new Promise((resolve) => {
    setTimeout(() => resolve(false), ms).unref();
  });
}
