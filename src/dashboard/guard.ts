import { isIP } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Issue, WindlassError } from '../errors.ts';

export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));

/** Without tokens everybody who reaches the port could read: then only this machine may reach it (contract §5). */
export function refuseOpenBind(host: string, tokens: number): void {
  if (tokens > 0 || isLoopback(host)) return;
  const issue: Issue = {
    path: 'http.tokens',
    message: `must name at least one token, because ${host} can be reached from other machines`,
  };
  throw new WindlassError('config_invalid', `The dashboard is not opened on ${host} without tokens.`, {
    issues: [issue],
    hint: '`windlass token create` makes one; or bind to 127.0.0.1 (http.host).',
  });
}

export interface HostRules {
  readonly host: string;
  readonly publicUrl: string | undefined;
  readonly allowedHosts: readonly string[];
}

/** A page of another site whose name was pointed at us (DNS rebinding) sends its own name as Host: only ours are served. */
export function hostAllowed(header: string | undefined, rules: HostRules): boolean {
  if (header === undefined || header === '') return false;
  const own = isLoopback(rules.host) ? ['127.0.0.1', 'localhost', '[::1]'] : [];
  const bound = ['0.0.0.0', '::'].includes(rules.host) ? [] : [isIP(rules.host) === 6 ? `[${rules.host}]` : rules.host];
  const named = rules.publicUrl === undefined ? [] : [new URL(rules.publicUrl).host, new URL(rules.publicUrl).hostname];
  const allowed = new Set([...own, ...bound, ...named, ...rules.allowedHosts].map((name) => name.toLowerCase()));
  const asked = header.toLowerCase();
  return allowed.has(asked) || allowed.has(asked.replace(/:\d+$/, ''));
}

/**
 * A write must come from our own pages or from no page at all: a cookie (or an open loopback port) would otherwise let
 * any site that the browser visits press our buttons.
 */
export function writeAllowed(headers: FastifyRequest['headers'], publicUrl: string | undefined): boolean {
  const { origin, host } = headers;
  if (origin !== undefined) {
    if (publicUrl !== undefined && origin === new URL(publicUrl).origin) return true;
    return origin === `http://${host}` || origin === `https://${host}`;
  }
  return headers['sec-fetch-site'] === 'same-origin' || headers['sec-fetch-site'] === 'none';
}

/** Bull Board needs inline styles; nothing needs inline scripts, frames or other hosts. */
export function securityHeaders(reply: FastifyReply, board: boolean): void {
  const style = board ? "'self' 'unsafe-inline'" : "'self'";
  void reply.headers({
    'content-security-policy': `default-src 'none'; script-src 'self'; style-src ${style}; img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri ${board ? "'self'" : "'none'"}; frame-ancestors 'none'`,
    'x-frame-options': 'DENY',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'same-origin',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
  });
}
