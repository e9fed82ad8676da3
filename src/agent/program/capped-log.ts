import { closeSync, ftruncateSync, openSync, readSync, writeSync } from 'node:fs';

const cut = Buffer.from('[the beginning was cut]\n');

/** A log file that keeps its end: it lies on a memory volume, so what it takes counts against the container's limit. */
export class CappedLog {
  readonly #fd: number;
  readonly #keep: number;
  #size = 0;

  constructor(path: string, keep: number) {
    this.#fd = openSync(path, 'w+', 0o600);
    this.#keep = keep;
  }

  append(data: Uint8Array): void {
    const end = data.byteLength > this.#keep ? data.subarray(data.byteLength - this.#keep) : data;
    writeSync(this.#fd, end, 0, end.byteLength, this.#size);
    this.#size += end.byteLength;
    if (this.#size > 2 * this.#keep) this.#cut();
  }

  close(): void {
    closeSync(this.#fd);
  }

  #cut(): void {
    const tail = Buffer.alloc(this.#keep);
    readSync(this.#fd, tail, 0, tail.length, this.#size - tail.length);
    ftruncateSync(this.#fd, 0);
    writeSync(this.#fd, Buffer.concat([cut, tail]), 0, cut.length + tail.length, 0);
    this.#size = cut.length + tail.length;
  }
}
