import { describe, expect, test } from 'vitest';
import { parseRedisUrl } from '../../../src/inventory/redis-url.ts';

describe('a Redis address', () => {
  test.each([
    ['redis://h', { kind: 'single', tls: false, hosts: [{ host: 'h', port: 6379 }], db: 0 }],
    ['rediss://h:6380/3', { kind: 'single', tls: true, hosts: [{ host: 'h', port: 6380 }], db: 3 }],
    ['redis://u:p%40%2F%3A@h', { username: 'u', password: 'p@/:' }],
    ['redis://:pw@[::1]:7000', { username: undefined, password: 'pw', hosts: [{ host: '::1', port: 7000 }] }],
    [
      'redis+sentinel://a:1,b/main/2',
      {
        kind: 'sentinel',
        master: 'main',
        db: 2,
        hosts: [
          { host: 'a', port: 1 },
          { host: 'b', port: 26379 },
        ],
      },
    ],
    [
      'redis+cluster://a,b:7',
      {
        kind: 'cluster',
        hosts: [
          { host: 'a', port: 6379 },
          { host: 'b', port: 7 },
        ],
      },
    ],
  ])('%s is understood', (url, expected) => {
    expect(parseRedisUrl(url)).toMatchObject(expected);
  });

  test.each(['http://h', 'redis://', 'redis://h:port', 'redis+sentinel://a,b', 'redis://h/db', 'redis://a:1:2', ''])(
    '"%s" is refused with its path',
    (url) => {
      expect(() => parseRedisUrl(url)).toThrow(
        expect.objectContaining({ code: 'config_invalid', issues: [expect.objectContaining({ path: 'redis.url' })] }),
      );
    },
  );

  test('never shows the password of what it refuses', () => {
    try {
      parseRedisUrl('redis://user:hunter2@h:notaport');
      expect.unreachable();
    } catch (error) {
      expect(JSON.stringify(error) + String(error)).not.toContain('hunter2');
    }
  });
});
