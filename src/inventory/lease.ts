import { monotonicMs } from '../clock.ts';
import { asWindlassError, WindlassError } from '../errors.ts';
import type { BeginOptions, Lease } from './port.ts';
import type { RunScript } from './scripts.ts';

export interface InventoryLog {
  debug(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

/** What a lease was taken for: scripts check with every write that it is still wanted. Decimal strings, as in Redis. */
export interface LeaseGrant {
  readonly hash: string;
  readonly instanceId: string;
  readonly fence: string;
  readonly verb: BeginOptions['verb'];
  readonly generation: string;
  readonly run: string;
}

/** How long a lease lives without renewal; renewed every third of it (design §4). */
export const leaseMs = 3000;
/** Leases per renewal script: a thousand of them must not hold Redis up. */
const batch = 200;

interface Holding {
  readonly grant: LeaseGrant;
  readonly abort: AbortController;
  /** Monotonic; counted from before the call that granted it, so that it never ends later here than in Redis. */
  deadline: number;
  /** Released, or taken over by a later begin of the same job in this process: its writes are refused here. */
  over: boolean;
}

/** Renews all leases of this process and tells their handlers when one ends or a newer request is seen. */
export interface LeaseKeeper {
  keep(grant: LeaseGrant, askedAt: number): Lease;
  /** Throws lease_lost for a lease that was released or taken over. */
  grantOf(lease: Lease): LeaseGrant;
  /** The lease was released by a script: renew it no more. */
  settle(lease: Lease): void;
  /** A message `hash generation run`: aborts at once what it supersedes. */
  onIntent(message: string): void;
  close(): void;
}

export function createLeaseKeeper(options: {
  run: RunScript;
  holder: string;
  log: InventoryLog;
  /** Called with every new lease: subscribes to intents, which a process without leases has no use for. */
  listen: () => void;
}): LeaseKeeper {
  const holdings = new Map<string, Holding>();
  const byLease = new WeakMap<Lease, Holding>();
  let timer: NodeJS.Timeout | undefined;
  let renewing = false;

  const forget = (holding: Holding) => {
    if (holdings.get(holding.grant.hash) === holding) holdings.delete(holding.grant.hash);
    if (holdings.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
  const lose = (holding: Holding, message: string) => {
    forget(holding);
    holding.abort.abort(new WindlassError('lease_lost', message));
  };
  const tick = async () => {
    for (const holding of holdings.values()) {
      if (monotonicMs() >= holding.deadline) lose(holding, 'The right to act was not renewed in time.');
    }
    if (renewing) return;
    renewing = true;
    try {
      const all = [...holdings.values()];
      for (let at = 0; at < all.length; at += batch) await renew(options, all.slice(at, at + batch), lose);
    } catch (error) {
      // The deadlines decide: as long as they are ahead, the next tick tries again.
      options.log.warn({ code: asWindlassError(error).code, leases: holdings.size }, 'leases not renewed');
    } finally {
      renewing = false;
    }
  };

  return {
    keep(grant, askedAt) {
      const before = holdings.get(grant.hash);
      if (before) {
        before.over = true;
        lose(before, 'A later start of the same job took the instance over.');
      }
      const holding: Holding = { grant, abort: new AbortController(), deadline: askedAt + leaseMs, over: false };
      holdings.set(grant.hash, holding);
      options.listen();
      timer ??= setInterval(() => void tick(), leaseMs / 3).unref();
      const lease = createLease(holding, async () => {
        forget(holding);
        const [answer] = await options.run('release', grant.instanceId, { hash: grant.hash, fence: grant.fence });
        if (answer.kind === 'stale') options.log.warn({ instance: grant.hash }, 'release refused: another worker has the lease');
      });
      byLease.set(lease, holding);
      return lease;
    },
    grantOf(lease) {
      const holding = byLease.get(lease);
      if (holding === undefined) throw new WindlassError('invariant_broken', 'A lease of another inventory was used.');
      if (holding.over) throw new WindlassError('lease_lost', 'The lease was released, or taken over by a later start.');
      return holding.grant;
    },
    settle(lease) {
      const holding = byLease.get(lease);
      if (holding === undefined) return;
      holding.over = true;
      forget(holding);
    },
    onIntent(message) {
      const [hash = '', generation, run] = message.split(' ');
      const holding = holdings.get(hash);
      // The rule of `wanted` in lua/common.lua: a removal goes on whatever else is asked (I11).
      if (holding === undefined || holding.grant.verb === 'teardown') return;
      if (generation !== holding.grant.generation || run !== holding.grant.run) supersede(holding);
    },
    close() {
      clearInterval(timer);
      holdings.clear();
    },
  };
}

function createLease(holding: Holding, send: () => Promise<void>): Lease {
  const { signal } = holding.abort;
  const held = () => !signal.aborted && !holding.over && monotonicMs() < holding.deadline;
  return {
    hash: holding.grant.hash,
    instanceId: holding.grant.instanceId,
    fence: holding.grant.fence,
    signal,
    held,
    assertHeld() {
      if (held()) return;
      if (signal.aborted) throw signal.reason;
      throw new WindlassError('lease_lost');
    },
    async release() {
      if (holding.over) return;
      holding.over = true;
      await send();
    },
  };
}

async function renew(
  options: { run: RunScript; holder: string },
  holdings: readonly Holding[],
  lose: (holding: Holding, message: string) => void,
): Promise<void> {
  const askedAt = monotonicMs();
  const leases = holdings.map(({ grant }) => [grant.hash, grant.fence, grant.verb, grant.generation, grant.run]);
  const [answer] = await options.run('renew', undefined, { holder: options.holder, ttl: String(leaseMs), leases }, '');
  const words = answer.answers as readonly string[];
  for (const [at, holding] of holdings.entries()) {
    if (holding.over) continue;
    if (words[at] === 'lost') {
      lose(holding, 'Another worker took the instance over.');
      continue;
    }
    holding.deadline = askedAt + leaseMs;
    if (words[at] === 'superseded') supersede(holding);
  }
}

/** The lease is still renewed until the handler lets go of it: nobody may act while it is on its way out. */
function supersede(holding: Holding): void {
  holding.abort.abort(new WindlassError('superseded'));
}
