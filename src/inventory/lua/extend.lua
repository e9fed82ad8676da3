#!lua flags=allow-oom
-- A: hash, owner (absent = operator), by, longest, suspended (all ms). Only ever later, and never past the limits.
local hash = A.hash
return once(function()
  local r = load(hash)
  if not r then
    local owner = redis.call('HGET', key('tombstone', hash), 'owner')
    return { kind = owner and (not A.owner or A.owner == owner) and 'gone' or 'missing' }
  end
  if A.owner and A.owner ~= r.owner then return { kind = 'missing' } end
  local suspended = r.state == 'suspended'
  if not suspended and r.state ~= 'ready' and r.state ~= 'lost' then return { kind = 'unfit', state = r.state } end
  local now = tonumber(r.expiresAt)
  local ceiling = suspended and NOW + tonumber(A.suspended) or tonumber(r.readyAt) + tonumber(A.longest)
  local wanted = math.max(now, NOW) + tonumber(A.by)
  local after = math.max(now, math.min(wanted, ceiling))
  if after ~= now then change(hash, r, { expiresAt = int(after) }) end
  return { kind = 'ok', expiresAt = int(after), clamped = wanted > ceiling and '1' or '' }
end)
