import type { FastifyInstance, FastifyReply } from 'fastify';
import { type Access, sessionCookie } from './access.ts';
import { audit } from './audit.ts';
import { icon, page, refreshScript, style } from './layout.ts';
import { signInPage } from './pages.ts';

interface SignInOptions {
  readonly access: Access;
  readonly base: string;
  /** The cookie is sent over https only. */
  readonly secure: boolean;
}

/** A browser cannot send a bearer token: it trades it once for a session cookie that no script can read. */
export function mountSignIn(app: FastifyInstance, { access, base, secure }: SignInOptions): void {
  const flags = `Path=${base || '/'}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;
  const enter = (reply: FastifyReply, session: string) =>
    reply.header('set-cookie', `${sessionCookie}=${session}; ${flags}`).redirect(`${base}/`, 303);

  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: 8192 },
    (_request, body, done) => {
      done(null, Object.fromEntries(new URLSearchParams(String(body))));
    },
  );
  app.get(`${base}/login`, async (_request, reply) =>
    reply.type('text/html; charset=utf-8').send(page({ title: 'Sign in', base, refresh: 0 }, signInPage(base, false))),
  );
  app.post<{ Body: { token?: string } | undefined }>(`${base}/login`, async (request, reply) => {
    const session = access.openSession((request.body?.token ?? '').trim());
    if (session !== undefined) return enter(reply, session);
    audit(request, undefined, 'authenticate', 'refused', 'unauthorized');
    return reply
      .code(401)
      .type('text/html; charset=utf-8')
      .send(page({ title: 'Sign in', base, refresh: 0 }, signInPage(base, true)));
  });
  app.post(`${base}/logout`, async (_request, reply) =>
    reply.header('set-cookie', `${sessionCookie}=; Max-Age=0; ${flags}`).redirect(`${base}/login`, 303),
  );
  // The address that the demo prints: the token goes out of the address bar at once.
  app.addHook('preHandler', async (request, reply) => {
    const token = (request.query as { token?: unknown } | undefined)?.token;
    if (request.identity !== undefined || typeof token !== 'string' || !access.isShortLived(token)) return;
    const session = access.openSession(token);
    if (session !== undefined) await enter(reply, session);
  });
  const asset = (name: string, type: string, body: string) =>
    app.get(`${base}/assets/${name}`, async (_request, reply) =>
      reply.type(type).header('cache-control', 'public, max-age=300').send(body),
    );
  asset('style.css', 'text/css; charset=utf-8', style);
  asset('refresh.js', 'text/javascript; charset=utf-8', refreshScript);
  asset('icon.svg', 'image/svg+xml', icon);
}
