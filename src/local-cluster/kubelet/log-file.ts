import { appendFileSync, closeSync, existsSync, openSync, readSync, renameSync, statSync } from 'node:fs';

export interface LogLine {
  readonly at: string;
  readonly text: string;
}

type Stream = 'stdout' | 'stderr';

/** As the kubelet's: a container's log is turned over at 10 MiB; what is older is not shown any more. */
const maxBytes = 10 * 1024 * 1024;
/** A line longer than this is cut, as the container runtime does. */
const maxLine = 16 * 1024;

/** The output of one start of a container, kept as lines with their time. */
export class LogFile {
  readonly path: string;
  readonly #partial: Record<Stream, string> = { stdout: '', stderr: '' };
  readonly #followers = new Set<(line: LogLine | undefined) => void>();
  readonly #maxBytes: number;
  #size = 0;
  #ended = false;

  constructor(path: string, limit: number = maxBytes) {
    this.path = path;
    this.#maxBytes = limit;
  }

  write(stream: Stream, chunk: Buffer): void {
    // latin1 keeps every byte, so that a character cut in two between chunks stays whole in the file.
    const lines = (this.#partial[stream] + chunk.toString('latin1')).split('\n');
    let rest = lines.pop() as string;
    while (rest.length > maxLine) {
      lines.push(rest.slice(0, maxLine));
      rest = rest.slice(maxLine);
    }
    this.#partial[stream] = rest;
    if (lines.length > 0) this.#append(lines);
  }

  /** The process has ended: what is left is a line too, and followers end. */
  end(): void {
    for (const stream of ['stdout', 'stderr'] as const) {
      if (this.#partial[stream] !== '') this.#append([this.#partial[stream]]);
      this.#partial[stream] = '';
    }
    this.#ended = true;
    for (const follower of this.#followers) follower(undefined);
    this.#followers.clear();
  }

  /** All kept lines, and from then on each new one to `follower` (undefined at the end). Returns how to stop. */
  read(follower?: (line: LogLine | undefined) => void): { lines: LogLine[]; stop: () => void } {
    const lines = readLines(this.path);
    if (follower === undefined) return { lines, stop: () => {} };
    if (this.#ended) queueMicrotask(() => follower(undefined));
    else this.#followers.add(follower);
    return { lines, stop: () => this.#followers.delete(follower) };
  }

  #append(texts: readonly string[]): void {
    const at = `${new Date().toISOString().slice(0, -1)}000000Z`;
    if (this.#size > this.#maxBytes) {
      renameSync(this.path, `${this.path}.1`);
      this.#size = 0;
    }
    const block = Buffer.from(texts.map((text) => `${at} ${text}\n`).join(''), 'latin1');
    appendFileSync(this.path, block);
    this.#size += block.length;
    for (const follower of this.#followers) for (const text of texts) follower({ at, text });
  }
}

function readLines(path: string): LogLine[] {
  if (!existsSync(path)) return [];
  const file = openSync(path, 'r');
  try {
    const content = Buffer.alloc(statSync(path).size);
    const length = readSync(file, content, 0, content.length, 0);
    const text = content.toString('latin1', 0, length);
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => ({ at: line.slice(0, 30), text: line.slice(31) }));
  } finally {
    closeSync(file);
  }
}
