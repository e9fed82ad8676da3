import { createWriteStream } from 'node:fs';
import { finished } from 'node:stream/promises';

/** One answered request. */
export interface AuditEntry {
  readonly at: string;
  readonly verb: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid?: string;
  /** HTTP status; 0 when the connection was dropped without an answer. */
  readonly code: number;
  readonly ms: number;
  readonly userAgent: string;
  /** The faults that it met, as the rules call them; absent when it met none. */
  readonly faults?: readonly string[];
}

export interface AuditLog {
  write(entry: AuditEntry): void;
  close(): Promise<void>;
}

/** NDJSON, one line a request, appended to `file`; nothing is written without one. */
export function openAuditLog(file: string | undefined, log: (message: string) => void): AuditLog {
  if (!file) return { write: () => undefined, close: async () => undefined };
  const stream = createWriteStream(file, { flags: 'a', mode: 0o600 });
  stream.on('error', (error) => log(`the audit log ${file} cannot be written: ${error.message}`));
  return {
    write: (entry) => void stream.write(`${JSON.stringify(entry)}\n`),
    async close() {
      stream.end();
      if (!stream.destroyed) await finished(stream);
    },
  };
}
