import { WindlassError } from '../errors.ts';

interface Host {
  readonly host: string;
  readonly port: number;
}

export interface RedisAddress {
  readonly kind: 'single' | 'sentinel' | 'cluster';
  readonly tls: boolean;
  readonly hosts: readonly Host[];
  /** Sentinel's name of the master; '' otherwise. */
  readonly master: string;
  readonly db: number;
  readonly username: string | undefined;
  readonly password: string | undefined;
}

const shape = /^(redis|rediss|redis\+sentinel|redis\+cluster):\/\/(?:([^@/]*)@)?([^/@]+)(?:\/([^?#]*))?$/;

/**
 * `redis://h:p/db`, `rediss://…`, `redis+sentinel://h1:p,h2:p/master[/db]`, `redis+cluster://h1:p,h2:p`, each with an
 * optional `user:password@` (percent-encoded). Several hosts are why the URL class cannot do it.
 */
export function parseRedisUrl(url: string): RedisAddress {
  const match = shape.exec(url);
  if (match === null) throw invalid('must be redis://, rediss://, redis+sentinel:// or redis+cluster:// with at least one host');
  const [, scheme = '', login = '', hosts = '', path = ''] = match;
  const kind = scheme === 'redis+sentinel' ? 'sentinel' : scheme === 'redis+cluster' ? 'cluster' : 'single';
  const [master, db] = kind === 'sentinel' ? splitOnce(path, '/') : ['', path];
  if (kind === 'sentinel' && master === '')
    throw invalid('must name the master after the sentinels: redis+sentinel://h1,h2/master');
  const [username, password] = splitOnce(login, ':').map((part) => decodeURIComponent(part));
  return {
    kind,
    tls: scheme === 'rediss',
    hosts: hosts.split(',').map((host) => parseHost(host, kind === 'sentinel' ? 26379 : 6379)),
    master: decodeURIComponent(master),
    db: parseDb(db),
    username: username || undefined,
    password: password || undefined,
  };
}

function splitOnce(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark);
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}

function parseHost(text: string, port: number): Host {
  const match = /^(\[[0-9a-fA-F:.]+\]|[^:[\]\s]+)(?::(\d{1,5}))?$/.exec(text);
  if (!match?.[1]) throw invalid(`has a host that cannot be read: "${text}"`);
  return { host: match[1].replace(/^\[|\]$/g, ''), port: match[2] === undefined ? port : Number(match[2]) };
}

function parseDb(text: string): number {
  if (text === '') return 0;
  if (!/^\d{1,3}$/.test(text)) throw invalid(`has a database that is not a number: "${text}"`);
  return Number(text);
}

const invalid = (message: string) =>
  new WindlassError('config_invalid', `redis.url ${message}.`, { issues: [{ path: 'redis.url', message }] });
