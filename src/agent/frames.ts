import { maxFrame } from './protocol.ts';

/** One piece of an exec stream; see `execChannel` for who sends which. */
export interface Frame {
  readonly channel: number;
  readonly payload: Buffer;
}

const headerBytes = 5;

/** [1 byte channel][4 bytes big-endian length][payload]. */
export function encodeFrame(channel: number, payload: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(headerBytes + payload.byteLength);
  frame[0] = channel;
  frame.writeUInt32BE(payload.byteLength, 1);
  frame.set(payload, headerBytes);
  return frame;
}

/** Cuts a byte stream into frames, whatever the chunks. Holds at most one frame: a larger one throws before it is buffered. */
export class FrameReader {
  #rest: Buffer = Buffer.alloc(0);

  push(chunk: Buffer): Frame[] {
    let data = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const frames: Frame[] = [];
    while (data.length >= headerBytes) {
      const length = data.readUInt32BE(1);
      if (length > maxFrame) throw new Error(`a frame of ${length} bytes is larger than ${maxFrame}`);
      if (data.length < headerBytes + length) break;
      frames.push({ channel: data.readUInt8(0), payload: data.subarray(headerBytes, headerBytes + length) });
      data = data.subarray(headerBytes + length);
    }
    this.#rest = data;
    return frames;
  }
}
