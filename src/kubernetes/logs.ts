import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { WindlassError } from '../errors.ts';
import { ApiError, abortReason, errorOfTransport } from './api-error.ts';
import { assertLabelName, assertObjectName } from './names.ts';
import type { LogOptions } from './port.ts';
import type { Rest, RestCall } from './rest.ts';

const tailBytes = 16 * 1024;
const defaultTailLines = 50;

function logCall(namespace: string, pod: string, options: LogOptions): RestCall {
  assertObjectName(pod);
  if (options.container !== undefined) assertLabelName('container', options.container);
  return {
    verb: 'get',
    resource: 'pods/log',
    name: pod,
    method: 'GET',
    path: `/api/v1/namespaces/${namespace}/pods/${pod}/log`,
    query: {
      container: options.container,
      follow: options.follow,
      previous: options.previous,
      tailLines: options.tailLines,
      sinceSeconds: options.sinceSeconds,
      limitBytes: options.limitBytes,
    },
    accept: '*/*',
    signal: options.signal,
    instance: options.instance,
  };
}

export function createLogs(rest: Rest, namespace: string) {
  /** Streams into the sink with its back-pressure; the sink stays open. An abort ends it without an error. */
  const logs = async (pod: string, sink: Writable, options: LogOptions = {}): Promise<void> => {
    const call = logCall(namespace, pod, options);
    try {
      for await (const chunk of (await rest.stream(call)) as AsyncIterable<Uint8Array>) {
        if (!sink.write(chunk)) await once(sink, 'drain', options.signal ? { signal: options.signal } : {});
      }
    } catch (error) {
      if (options.signal?.aborted) {
        if (options.follow) return;
        throw abortReason(options.signal);
      }
      throw error instanceof WindlassError ? error : errorOfTransport(call, error);
    }
  };

  /**
   * The end of a log as text. The API's own byte limit keeps the beginning, so that the cut is made here. '' when there
   * is nothing to read yet: no container (400) or no Pod any more (404).
   */
  const logTail = async (pod: string, options: LogOptions = {}): Promise<string> => {
    const { limitBytes = tailBytes, ...rest_ } = options;
    const call = logCall(namespace, pod, { tailLines: defaultTailLines, ...rest_, follow: false });
    let tail = Buffer.alloc(0);
    try {
      for await (const chunk of (await rest.stream(call)) as AsyncIterable<Uint8Array>) {
        tail = Buffer.concat([tail, chunk]);
        if (tail.length > limitBytes) tail = tail.subarray(tail.length - limitBytes);
      }
    } catch (error) {
      if (options.signal?.aborted) throw abortReason(options.signal);
      if (error instanceof ApiError && (error.status === 400 || error.status === 404)) return '';
      throw error instanceof WindlassError ? error : errorOfTransport(call, error);
    }
    return tail.toString('utf8');
  };
  return { logs, logTail };
}
