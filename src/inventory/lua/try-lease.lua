#!lua flags=allow-oom
-- A: hash, holder, ttl. For a name without a record too: a sweep must keep others off while it judges an orphan.
local hash = A.hash
return once(function()
  local r = load(hash)
  if leaseOf(hash) then return { kind = 'held' } end
  local stored = r and r.fence or redis.call('HGET', key('tombstone', hash), 'fence') or ''
  local fence = fenceAfter(stored)
  local generation, run = r and r.generation or '0', r and r.run or '0'
  -- Not through `change`: being looked at by a sweep does not make a record newer.
  if r then redis.call('HSET', key('record', hash), 'fence', fence) end
  lease(hash, fence, 'sweep', generation, run)
  return { kind = 'ok', fence = fence, instanceId = r and r.instanceId or '', generation = generation, run = run }
end)
