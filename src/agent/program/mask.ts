/**
 * Hides secret values in a stream of bytes: as they are, base64 (at each of the three alignments, so also inside a longer
 * text), URL-encoded and as a JSON string. Line breaks inside a value are skipped over, since `base64` wraps its lines.
 *
 * One Aho-Corasick automaton over all forms. Its depth says how many of the last bytes may be the start of a value: only
 * those are held back, so that a prompt or a progress bar shows at once although a value may be cut across chunks.
 */
export class Mask {
  readonly #next: Map<number, number>[] = [new Map()];
  readonly #fail: number[] = [0];
  readonly #depth: number[] = [0];
  /** Length of the longest form that ends in this state; 0 = none. */
  readonly #found: number[] = [0];

  constructor(values: Iterable<string>) {
    for (const value of values) for (const form of formsOf(value)) this.#add(form);
    this.#link();
  }

  /** A masker for one stream: two streams through one would hide a value that neither holds, or miss one. */
  stream(): MaskStream {
    return new MaskStream((state, byte) => this.#step(state, byte), this.#depth, this.#found);
  }

  #add(form: Buffer): void {
    let state = 0;
    for (const byte of form) {
      let next = this.#next[state]!.get(byte);
      if (next === undefined) {
        next = this.#next.length;
        this.#next[state]!.set(byte, next);
        this.#next.push(new Map());
        this.#fail.push(0);
        this.#found.push(0);
        this.#depth.push(this.#depth[state]! + 1);
      }
      state = next;
    }
    this.#found[state] = form.length;
  }

  #link(): void {
    const queue = [...this.#next[0]!.values()];
    for (let at = 0; at < queue.length; at++) {
      const state = queue[at]!;
      for (const [byte, next] of this.#next[state]!) {
        this.#fail[next] = this.#step(this.#fail[state]!, byte);
        this.#found[next] = Math.max(this.#found[next]!, this.#found[this.#fail[next]!]!);
        queue.push(next);
      }
    }
  }

  #step(from: number, byte: number): number {
    for (let state = from; ; state = this.#fail[state]!) {
      const next = this.#next[state]!.get(byte);
      if (next !== undefined) return next;
      if (state === 0) return 0;
    }
  }
}

const cover = Buffer.from('***');

export class MaskStream {
  readonly #step: (state: number, byte: number) => number;
  readonly #depth: readonly number[];
  readonly #found: readonly number[];
  #state = 0;
  /** Held back: bytes, and for each whether it belongs to a value. */
  #bytes: number[] = [];
  #hidden: boolean[] = [];
  #covering = false;

  constructor(step: (state: number, byte: number) => number, depth: readonly number[], found: readonly number[]) {
    this.#step = step;
    this.#depth = depth;
    this.#found = found;
  }

  /** What can be shown by now. */
  push(chunk: Uint8Array): Buffer {
    const out: Buffer[] = [];
    let plainFrom = 0;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]!;
      if (this.#bytes.length === 0 && (isBreak(byte) || this.#step(0, byte) === 0)) {
        this.#covering = false;
        continue;
      }
      if (this.#bytes.length === 0) out.push(Buffer.from(chunk.subarray(plainFrom, at)));
      out.push(this.#take(byte));
      plainFrom = at + 1;
    }
    out.push(Buffer.from(chunk.subarray(Math.min(plainFrom, chunk.length))));
    return Buffer.concat(out);
  }

  /** The rest, at the end of the stream. */
  end(): Buffer {
    this.#state = 0;
    return this.#release(this.#bytes.length);
  }

  #take(byte: number): Buffer {
    this.#bytes.push(byte);
    this.#hidden.push(false);
    if (!isBreak(byte)) {
      this.#state = this.#step(this.#state, byte);
      const found = this.#found[this.#state]!;
      if (found > 0) this.#hidden.fill(true, this.#lastBytes(found));
    }
    return this.#release(this.#lastBytes(this.#depth[this.#state]!));
  }

  /** Where the last `count` bytes begin, line breaks not counted. */
  #lastBytes(count: number): number {
    let at = this.#bytes.length;
    for (let left = count; left > 0; ) if (!isBreak(this.#bytes[--at]!)) left--;
    return at;
  }

  #release(count: number): Buffer {
    const out: Buffer[] = [];
    for (let at = 0; at < count; at++) {
      if (!this.#hidden[at]) out.push(Buffer.of(this.#bytes[at]!));
      else if (!this.#covering) out.push(cover);
      this.#covering = this.#hidden[at]!;
    }
    this.#bytes.splice(0, count);
    this.#hidden.splice(0, count);
    return out.length === 0 ? empty : Buffer.concat(out);
  }
}

const empty = Buffer.alloc(0);

function isBreak(byte: number): boolean {
  return byte === 10 || byte === 13;
}

/** Shorter ones are in every text: hiding them would tell where they are, and make the rest unreadable. */
const shortest = 3;

function formsOf(text: string): Buffer[] {
  // As the environment holds it: a lone surrogate has no URL form.
  const value = Buffer.from(text).toString();
  const url = encodeURIComponent(value);
  const forms = [
    value,
    JSON.stringify(value).slice(1, -1),
    url,
    url.replaceAll('%20', '+'),
    url.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    ...value.split(/[\r\n]+/).filter((line) => line.length >= 8),
    ...[0, 1, 2].flatMap((shift) => base64Within(Buffer.from(value), shift)),
  ];
  return forms.map((form) => Buffer.from(form.replaceAll(/[\r\n]/g, ''))).filter((form) => form.length >= shortest);
}

/** The characters of a longer text's base64 that depend on nothing but the value, which begins `shift` bytes into a group. */
function base64Within(value: Buffer, shift: number): string[] {
  const text = Buffer.concat([Buffer.alloc(shift), value]).toString('base64');
  const first = Math.ceil((shift * 8) / 6);
  const last = Math.floor(((shift + value.length) * 8) / 6);
  const inner = text.slice(first, last);
  return inner.length < shortest + 1 ? [] : [inner, inner.replaceAll('+', '-').replaceAll('/', '_')];
}
