import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { join } from 'node:path';
import { readJsonIfThere, writeAtomic } from './files.ts';

export type HandshakeResult = { readonly token: string } | { readonly refused: 403 | 429; readonly why: string };

/** Wrong nonces in a row before the next try must wait, and how long until one more is free. */
const burst = 10;
const refillMs = 2000;

/**
 * Who may talk to this agent. Token and client key lie on the run volume: a container restart keeps them, so that the
 * worker's stored token stays valid, and a Pod without them (node reboot) starts over with the nonce.
 */
export class Auth {
  readonly #nonce: string;
  readonly #path: string;
  #token: string | undefined;
  /** The client that shook hands; null after a rekey: whoever proves the nonce next. */
  #clientKey: string | null = null;
  #wrong = 0;
  #lastWrong = 0;

  constructor(nonce: string, runDir: string) {
    this.#nonce = nonce;
    this.#path = join(runDir, 'token.json');
    const kept = readJsonIfThere(this.#path) as { token: string; clientKey: string | null } | undefined;
    this.#token = kept?.token;
    this.#clientKey = kept?.clientKey ?? null;
  }

  /** The same client gets the same token again, since the answer may be lost on the way. */
  handshake(nonce: string, clientKey: string): HandshakeResult {
    if (this.#tooMany()) return { refused: 429, why: 'too many wrong nonces' };
    if (!equal(nonce, this.#nonce)) {
      this.#wrong++;
      this.#lastWrong = Date.now();
      return { refused: 403, why: 'wrong nonce' };
    }
    if (this.#clientKey !== null && !equal(clientKey, this.#clientKey)) {
      return { refused: 403, why: 'another client shook hands already' };
    }
    if (this.#token === undefined || this.#clientKey === null) this.#keep(this.#token ?? newToken(), clientKey);
    return { token: this.#token! };
  }

  /** For somebody with exec rights in the Pod, when the token was lost with the inventory. The old one ends. */
  rekey(): string {
    return this.#keep(newToken(), null);
  }

  accepts(authorization: string | undefined): boolean {
    const presented = /^Bearer ([^\s]+)$/.exec(authorization ?? '')?.[1];
    return presented !== undefined && this.#token !== undefined && equal(presented, this.#token);
  }

  #keep(token: string, clientKey: string | null): string {
    writeAtomic(this.#path, JSON.stringify({ token, clientKey }), 0o600);
    this.#token = token;
    this.#clientKey = clientKey;
    return token;
  }

  #tooMany(): boolean {
    const refilled = Math.floor((Date.now() - this.#lastWrong) / refillMs);
    return this.#wrong - refilled >= burst;
  }
}

function newToken(): string {
  return randomBytes(32).toString('hex');
}

/** Constant time, whatever the lengths. */
function equal(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
