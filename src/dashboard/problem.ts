import type { FastifyReply, FastifyRequest } from 'fastify';
import { asWindlassError, errorBody, WindlassError } from '../errors.ts';
import { page } from './layout.ts';
import { messagePage, signInPage } from './pages.ts';

export const wantsHtml = (request: FastifyRequest): boolean => (request.headers.accept ?? '').includes('text/html');

/** Of an address that nobody serves; the hint of a payload would send people to a schema. */
const noPage = 'The pages begin at the list of instances.';

/** Every refusal in one form: problem+json with our code, or a page where a browser asked. */
export function sendProblem(request: FastifyRequest, reply: FastifyReply, base: string, thrown: unknown): FastifyReply {
  const status = (thrown as { statusCode?: unknown }).statusCode;
  const error =
    typeof status === 'number' && status < 500
      ? new WindlassError('payload_invalid', (thrown as Error).message, status === 404 ? { hint: noPage } : {})
      : asWindlassError(thrown);
  const http = typeof status === 'number' ? status : error.row.http;
  if (http === 401) void reply.header('www-authenticate', 'Bearer realm="windlass"');
  void reply.code(http).header('cache-control', 'no-store');
  if (wantsHtml(request)) {
    const body =
      http === 401
        ? signInPage(base, false)
        : messagePage(error.code === 'instance_not_found' ? 'Not found' : 'This did not work', error.message, error.hint);
    return reply.type('text/html; charset=utf-8').send(page({ title: 'Problem', base, refresh: http === 503 ? 5 : 0 }, body));
  }
  const { message, ...rest } = errorBody(error);
  return reply
    .type('application/problem+json')
    .send({ schema: 'windlass/v1', type: 'about:blank', title: error.code, status: http, detail: message, ...rest });
}
