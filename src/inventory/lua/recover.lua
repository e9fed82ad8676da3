#!lua
-- A: hash, fence, fields {fields}, secrets {name: text}, events, remove ('1' or ''). Puts a record back that Redis lost.
-- Under a lease on the name; a record that knows better is left as it is.
local hash = A.hash

-- Torn down since: that removal is still to come, and takes what is recovered as well. The stronger of two counts: the rest
-- of a removal of everything keeps no workspace.
local function keepRemoval(r, f)
  f.removeUpTo, f.removeRun = nil, r.removeRun ~= '' and r.removeRun or '1'
  local all = f.intent == 'absent'
  f.intent = all and r.intent == 'suspended' and 'absent' or nil
  local asked = cjson.decode(redis.call('HGET', key('record', hash), 'removal'))
  if not (all and type(asked) == 'table' and asked.keepWorkspace == true) then f.removal = nil end
end

-- A launch that was accepted since and waits: it keeps its generation, and finds the instance as it is.
local function merge(r, f)
  local placed = redis.call('HMGET', key('record', hash), 'profile', 'app')
  f.generation, f.run, f.owner, f._requestHash = r.generation, r.run, r.owner, r._requestHash
  f.request, f.deadlineAt, f.attemptsLeft = nil, nil, nil
  -- It was sent after the loss: of what it asks for nothing is missing.
  f.missing = '[]'
  local removal = r.removeUpTo ~= '0'
  if removal then keepRemoval(r, f) else f.intent = 'present' end
  if f.state == 'ready' and not removal then
    f._begun, f._settled = r.generation .. '-' .. r.run, r.generation .. '-' .. r.run
    return
  end
  -- What it starts is what it asked for, not what it found.
  f.lifetime, f.limits = nil, nil
  if removal then return end
  f.profile, f.app = nil, nil
  if f.state == 'removing' then f._next = cjson.encode({ cluster = r.cluster, profile = placed[1], app = placed[2] }) end
end

local function fresh(f)
  redis.call('DEL', key('record', hash), key('secrets', hash))
  f._begun, f._settled, f._requestHash = f.generation .. '-' .. f.run, f.generation .. '-' .. f.run, ''
end

return once(function()
  local held = leaseOf(hash)
  if not held or held.fence ~= A.fence then refuse('lease_lost', 'Another worker took the instance over.') end
  local f, r = A.fields, load(hash)
  if r then
    local waits = r.state == 'requested' and r._begun ~= r.generation .. '-' .. r.run
    if waits and r.owner ~= f.owner then return { kind = 'known' } end
    if not waits and tonumber(r.generation) >= tonumber(f.generation) then return { kind = 'known' } end
    unindex(hash, r)
    if waits then merge(r, f) else fresh(f) end
  else
    local tomb = redis.call('HGET', key('tombstone', hash), 'generation')
    if tomb and tonumber(tomb) >= tonumber(f.generation) then return { kind = 'known' } end
    fresh(f)
  end
  redis.call('DEL', key('tombstone', hash))
  redis.call('PERSIST', key('events', hash))
  f.fence, f.updatedAt = A.fence, int(NOW)
  -- Whoever has read what was here before must see that it is another record now (begin.lua: seen).
  f.version = int((tonumber(r and r.version) or 0) + 1)
  local args = {}
  for field, value in pairs(f) do
    args[#args + 1] = field
    args[#args + 1] = value
  end
  redis.call('HSET', key('record', hash), unpack(args))
  local now = load(hash)
  index(hash, now)
  for name, text in pairs(A.secrets) do redis.call('HSET', key('secrets', hash), name, text) end
  append(hash, now.generation, A.events)
  if A.remove == '1' then
    addPending('teardown', hash, { instanceId = now.instanceId, generation = now.removeUpTo, run = now.removeRun }, 1)
  end
  bump('inst:' .. hash)
  return { kind = 'recovered' }
end, hash)
