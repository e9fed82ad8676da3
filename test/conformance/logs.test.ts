import { Writable } from 'node:stream';
import { afterAll, describe, expect, it } from 'vitest';
import { openTarget, podOf } from './target.ts';

const target = await openTarget();
const log = async (name: string, query = '') => (await target.call('GET', `${target.home}/pods/${name}/log?${query}`)).body;
const ended = (name: string) => target.until(`pods/${name}`, ({ status }) => ['Succeeded', 'Failed'].includes(status.phase));
afterAll(() => target.close());

describe('logs', () => {
  it('are both outputs in order; a tail, a limit, times', async () => {
    await target.create('pods', podOf(target, 'lines', 'for i in 1 2 3; do echo line $i; sleep 0.1; done; echo err >&2'));
    await ended('lines');
    expect(await log('lines')).toBe('line 1\nline 2\nline 3\nerr\n');
    expect(await log('lines', 'tailLines=2')).toBe('line 3\nerr\n');
    expect(await log('lines', 'tailLines=0')).toBe('');
    expect(await log('lines', 'limitBytes=4')).toBe('line');
    expect(await log('lines', 'timestamps=true&tailLines=1')).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z err\n$/);
    expect(await target.cluster.logTail('lines')).toBe('line 1\nline 2\nline 3\nerr\n');
  });

  it('are followed while the container runs, and end with it', async () => {
    await target.create('pods', podOf(target, 'follow', 'for i in 1 2 3 4 5; do echo $i; sleep 0.3; done'));
    await target.until('pods/follow', ({ status }) => status.phase === 'Running');
    let text = '';
    const sink = new Writable({
      write(chunk, _encoding, next) {
        text += chunk;
        next();
      },
    });
    await target.cluster.logs('follow', sink, { follow: true });
    expect(text).toBe('1\n2\n3\n4\n5\n');
  });

  it('of the run before can be had after a restart', async () => {
    const volumes = [{ name: 'v', emptyDir: {} }];
    const volumeMounts = [{ name: 'v', mountPath: '/state' }];
    const script = 'if [ -e /state/ran ]; then echo second; exec sleep 1000; fi; touch /state/ran; echo first; exit 1';
    await target.create('pods', podOf(target, 'again', script, { restartPolicy: 'Always', volumes }, { volumeMounts }));
    await target.until(
      'pods/again',
      ({ status }) => status.containerStatuses?.[0].restartCount === 1 && status.containerStatuses[0].state.running,
    );
    expect(await log('again', 'previous=true')).toBe('first\n');
    expect(await log('again')).toBe('second\n');
    const none = await target.call('GET', `${target.home}/pods/follow/log?previous=true`);
    expect([none.code, none.body.reason]).toEqual([400, 'BadRequest']);
    expect(none.body.message).toBe('previous terminated container "main" in pod "follow" not found');
  });

  it('are refused with the reason when there are none yet', async () => {
    await target.create('pods', podOf(target, 'no-image', 'true', {}, { image: 'windlass-no-such-image:1' }));
    await target.until(
      'pods/no-image',
      ({ status }) => status.containerStatuses?.[0].state.waiting?.reason === 'ImagePullBackOff',
    );
    const { code, body } = await target.call('GET', `${target.home}/pods/no-image/log`);
    expect(code).toBe(400);
    expect(body.message).toBe('container "main" in pod "no-image" is waiting to start: trying and failing to pull image');
    const other = await target.call('GET', `${target.home}/pods/no-image/log?container=other`);
    expect([other.code, other.body.message]).toEqual([400, 'container other is not valid for pod no-image']);
    expect((await target.call('GET', `${target.home}/pods/absent/log`)).code).toBe(404);
  });
});
