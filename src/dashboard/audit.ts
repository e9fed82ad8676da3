import type { FastifyRequest } from 'fastify';
import type { Identity } from './access.ts';

/** One line on stdout for each action and each refusal (contract §5); never a token, a body or a query. */
export function audit(
  request: FastifyRequest,
  who: Identity | undefined,
  action: string,
  result: 'done' | 'refused',
  code = '',
): void {
  const line = {
    schema: 'windlass/v1',
    type: 'audit',
    at: new Date().toISOString(),
    actor: who?.name ?? '',
    role: who?.role ?? '',
    via: who?.via ?? 'http',
    ip: request.ip,
    action,
    path: request.url.split('?')[0] ?? '',
    result,
    code,
    requestId: request.id,
  };
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
