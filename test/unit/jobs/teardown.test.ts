import { EventEmitter, once } from 'node:events';
import { afterEach, expect, it, vi } from 'vitest';
import { WindlassError } from '../../../src/errors.ts';
import type { JobContext } from '../../../src/jobs/context.ts';
import { teardown } from '../../../src/jobs/teardown.ts';
import { claimName } from '../../../src/names.ts';

const unhandled: unknown[] = [];
const note = (reason: unknown) => void unhandled.push(reason);
afterEach(() => {
  process.off('unhandledRejection', note);
});

it('a checkpoint that Redis refuses while the lease is being released ends the attempt, not the process', async () => {
  process.on('unhandledRejection', note);
  const calls = new EventEmitter();
  const away = new WindlassError('redis_unavailable');
  const lease = {
    signal: new AbortController().signal,
    release: async () => {
      calls.emit('releasing');
      await once(calls, 'released');
    },
  };
  const workspace = { mode: 'managed_pvc', created: true, claimName: claimName('h'), claimUid: 'u' };
  const record = {
    hash: 'h',
    removal: { version: 1, instanceId: 'a' },
    namespace: 'n',
    pod: null,
    workspace,
    creates: {},
    updatedAt: 0,
  };
  const unreachable = () => Promise.reject(new WindlassError('cluster_unreachable'));
  const context = {
    job: { queue: 'teardown', jobId: 'j' },
    signal: new AbortController().signal,
    log: { warn: vi.fn() },
    clusters: { get: () => ({ namespace: 'n', read: unreachable }) },
    inventory: { begin: async () => ({ kind: 'ok', lease, record }), write: () => Promise.reject(away) },
  } as unknown as JobContext;
  const releasing = once(calls, 'releasing');
  const ended = teardown(context, { version: 1, instanceId: 'a', generation: 1, run: 1 }).catch((error: unknown) => error);
  await releasing;
  // Rejections that nobody handles are told at the end of this turn of the event loop.
  await new Promise(setImmediate);
  calls.emit('released');
  expect(await ended).toBe(away);
  expect(unhandled).toEqual([]);
});
