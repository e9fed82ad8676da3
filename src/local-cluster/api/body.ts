import type { IncomingMessage } from 'node:http';
import type { PatchType } from './patch.ts';
import { ApiError, badRequest } from './status.ts';

const limitBytes = 3 * 1024 * 1024;

const mediaType = (request: IncomingMessage): string =>
  (request.headers['content-type'] ?? '').split(';')[0]!.trim().toLowerCase();

const unsupportedMedia = (message: string): ApiError => new ApiError(415, 'UnsupportedMediaType', message);

const patchTypes: readonly PatchType[] = [
  'application/json-patch+json',
  'application/merge-patch+json',
  'application/strategic-merge-patch+json',
];

/** 415 for patches that are not served, with what to send instead. */
export function patchTypeOf(request: IncomingMessage): PatchType {
  const type = mediaType(request);
  const found = patchTypes.find((known) => known === type);
  if (found) return found;
  if (type.startsWith('application/apply-patch')) {
    throw unsupportedMedia(
      'the embedded cluster has no server-side apply: use client-side `kubectl apply` without --server-side, or send application/merge-patch+json',
    );
  }
  throw unsupportedMedia(
    `the body of the request was in an unknown format - accepted media types include: ${patchTypes.join(', ')}`,
  );
}

async function readAll(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    // Read on to the end: an answer before the client has sent everything would reach it as a reset.
    if (size <= limitBytes) chunks.push(chunk);
  }
  if (size > limitBytes) {
    throw new ApiError(413, 'RequestEntityTooLarge', `Request entity too large: limit is ${limitBytes}`);
  }
  return Buffer.concat(chunks).toString('utf8');
}

async function parseAs(type: string, text: string): Promise<unknown> {
  try {
    // Few clients send YAML: its library is not loaded before one does.
    return type.includes('yaml') ? (await import('yaml')).parse(text) : JSON.parse(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw badRequest(`the body of the request is not valid ${type.includes('yaml') ? 'YAML' : 'JSON'}: ${why}`);
  }
}

/** The parsed body, undefined when there is none. JSON and YAML are read; protobuf is 415 with what to do instead. */
export async function readBody(request: IncomingMessage): Promise<unknown> {
  const text = await readAll(request);
  const type = mediaType(request);
  if (type.includes('protobuf')) {
    throw unsupportedMedia(
      'the embedded cluster reads no protobuf bodies: send application/json (with kubectl: `kubectl create -f FILE` or `kubectl apply -f FILE` instead of `kubectl create KIND`)',
    );
  }
  if (type && !type.includes('json') && !type.includes('yaml')) {
    throw unsupportedMedia(
      'the body of the request was in an unknown format - accepted media types include: application/json, application/yaml',
    );
  }
  return text.trim() === '' ? undefined : parseAs(type, text);
}
