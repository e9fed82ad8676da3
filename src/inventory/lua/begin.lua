#!lua flags=allow-oom
-- A: hash, verb, generation, run, holder, job, ttl, seen (version that `set` was made of) or absent, caps {owner, cluster, global, launching} or absent, set {fields}, events
local hash = A.hash

local function full(set, cap) return redis.call('SCARD', set) >= tonumber(cap) end

-- Where a launch goes on from. `ready` stays (a reconnect finds out what is left); a broken rollback is taken up again.
local function launchState(r)
  if r.state == 'launching' or r.state == 'rolling_back' or r.state == 'ready' then return r.state end
  if r.state == 'cleanup_pending' then return 'rolling_back' end
  return 'launching'
end

-- Counted from the live sets, so that nothing can drift; who is in them already takes no new slot.
local function capped(r)
  if not A.caps then return nil end
  if redis.call('SISMEMBER', T .. ':live', hash) == 0 then
    if full(key('live-owner', r.owner), A.caps.owner) then return 'owner_limit' end
    if full(key('live-cluster', A.set.cluster or r.cluster), A.caps.cluster) then return 'cluster_saturated' end
    if full(T .. ':live', A.caps.global) then return 'cluster_saturated' end
  end
  -- A rollback starts nothing, and those who fill this cap may be waiting for what it frees (a quota).
  if launchState(r) == 'rolling_back' then return nil end
  if redis.call('SISMEMBER', T .. ':launching', hash) == 0 and full(T .. ':launching', A.caps.launching) then
    return 'cluster_saturated'
  end
  return nil
end

local function refusal(r)
  if A.verb == 'teardown' then
    if not wanted(r, A.verb, A.generation, A.run) then return { kind = 'settled' } end
    return nil
  end
  if r.generation ~= A.generation or r.run ~= A.run then return { kind = 'superseded' } end
  if A.verb ~= 'launch' then return nil end
  if r.intent ~= 'present' then return { kind = 'superseded' } end
  if r.removeUpTo ~= '0' or r.state == 'removing' then return { kind = 'wait', reason = 'removing' } end
  if r._settled == A.generation .. '-' .. A.run then return { kind = 'settled' } end
  return nil
end

return once(function()
  local r = load(hash)
  if not r then return { kind = 'missing' } end
  local refused = refusal(r)
  if refused then return refused end
  local held = leaseOf(hash)
  -- The same request under another job id is another job: it waits, also in the process that runs the first.
  local ours = held and held.holder == A.holder and held.job == A.job and held.verb == A.verb and held.generation == A.generation
    and held.run == A.run and held.fence == r.fence
  if held and not ours then return { kind = 'wait', reason = 'lease_held' } end
  -- What was worked out from an older state is not merged into this one: a removal or another delivery came in between.
  if A.seen and A.seen ~= r.version then return { kind = 'changed' } end
  local cap = A.verb == 'launch' and capped(r)
  if cap then return { kind = 'wait', reason = cap } end

  local changes = A.set
  changes.state = A.verb == 'launch' and launchState(r) or A.verb == 'teardown' and 'removing' or r.state
  checkTransition(r.state, changes.state)
  if A.verb == 'launch' then
    if changes.state == 'launching' and r.state ~= 'launching' then changes.before = r.state end
    changes._begun = A.generation .. '-' .. A.run
  end
  changes.fence = ours and r.fence or fenceAfter(r.fence)
  if not ours then
    changes.crashes = int((tonumber(redis.call('HGET', key('record', hash), 'crashes')) or 0) + 1)
  end
  forgetWait(A.verb .. '|' .. A.verb .. '-' .. hash .. '-' .. A.generation .. '-' .. A.run)
  -- A raw job's id is its client's.
  if A.job then forgetWait(A.verb .. '|' .. A.job) end
  change(hash, r, changes)
  lease(hash, changes.fence, A.verb, A.generation, A.run)
  if not ours then
    if changes.state == 'removing' and r.state ~= 'removing' then append(hash, A.generation, { { t = 'removing', d = '{}' } }) end
    append(hash, A.generation, A.events)
  end
  return { kind = 'ok', fence = changes.fence }
end, hash)
