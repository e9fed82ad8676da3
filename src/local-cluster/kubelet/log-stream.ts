import { PassThrough, type Readable } from 'node:stream';
import type { NodeRuntime } from '../types.ts';
import type { LogFile, LogLine } from './log-file.ts';

type LogOptions = Parameters<NodeRuntime['logs']>[1];

/** A container's log as `kubectl logs` asks for it. */
export function streamLog(log: LogFile, options: LogOptions): Readable {
  const output = new PassThrough();
  let left = options.limitBytes ?? Number.POSITIVE_INFINITY;
  const write = ({ at, text }: LogLine) => {
    if (output.writableEnded) return;
    const line = Buffer.from(`${options.timestamps ? `${at} ` : ''}${text}\n`, 'latin1');
    output.write(line.subarray(0, Math.min(left, line.length)));
    left -= line.length;
    if (left <= 0) output.end();
  };
  const { lines, stop } = log.read(options.follow ? (line) => (line === undefined ? output.end() : write(line)) : undefined);
  for (const line of select(lines, options)) write(line);
  if (!options.follow) output.end();
  options.signal.addEventListener('abort', () => output.end(), { once: true });
  if (options.signal.aborted) output.end();
  output.once('close', stop);
  output.once('finish', stop);
  return output;
}

function select(lines: readonly LogLine[], { sinceSeconds, tailLines }: LogOptions): readonly LogLine[] {
  const since = sinceSeconds === undefined ? '' : new Date(Date.now() - sinceSeconds * 1000).toISOString();
  const recent = since === '' ? lines : lines.filter((line) => line.at >= since.slice(0, -1));
  return tailLines === undefined ? recent : recent.slice(recent.length - Math.min(tailLines, recent.length));
}

/** The end of a log for a termination message: 80 lines, 2048 bytes. */
export function logTail(log: LogFile): string {
  const lines = log.read().lines.slice(-80);
  const text = Buffer.from(lines.map(({ text: line }) => `${line}\n`).join(''), 'latin1');
  return text.subarray(Math.max(0, text.length - 2048)).toString();
}
