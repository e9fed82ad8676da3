#!lua flags=allow-oom
-- A: hash, fence, generation, suspended ('1' or ''), expiresIn (ms) or absent. The only script that ends a record.
local hash = A.hash

local function entomb(r)
  redis.call('HSET', key('tombstone', hash), 'instanceId', r.instanceId, 'owner', r.owner, 'generation', r.generation,
    'fence', r.fence, 'goneAt', int(NOW))
  redis.call('PEXPIRE', key('tombstone', hash), TOMBSTONE_MS)
  unindex(hash, r)
  redis.call('DEL', key('record', hash), key('secrets', hash))
  append(hash, A.generation, { { t = 'gone', d = '{}' } })
  redis.call('PEXPIRE', key('events', hash), TOMBSTONE_MS)
  wakeFreed(r, nil)
  return 'gone'
end

-- A newer launch waits: it starts from nothing, with the placement it asked for.
local function restart(r)
  local sealed = redis.call('HGET', key('secrets', hash), 'sealedEnv')
  redis.call('DEL', key('secrets', hash))
  if sealed then redis.call('HSET', key('secrets', hash), 'sealedEnv', sealed) end
  local changes = {
    state = 'requested', before = 'requested', removeUpTo = '0', namespace = '', snapshot = '', hashes = 'null', creates = '{}',
    pod = 'null', workspace = 'null', agent = 'null', restartCount = '0', rebuilds = '0', exitCode = 'null', stages = '[]', failure = 'null',
    crashes = '0', readyAt = '0', expiresAt = '0', removal = 'null', _next = '',
  }
  for field, value in pairs(cjson.decode(r._next ~= '' and r._next or '{}')) do changes[field] = value end
  append(hash, A.generation, { { t = 'gone', d = '{}' } })
  change(hash, r, changes)
  return 'requested'
end

local function suspend(r)
  local changes = { state = 'suspended', pod = 'null', agent = 'null', stages = '[]', crashes = '0', readyAt = '0' }
  if A.expiresIn then changes.expiresAt = int(NOW + tonumber(A.expiresIn)) end
  -- Behind a newer removal nothing goes on yet: where the launch behind that is to go is still to be known then.
  local last = tonumber(r.removeUpTo) <= tonumber(A.generation)
  if last then changes.removeUpTo = '0' end
  if last and r.intent == 'present' and r._next ~= '' then
    local placement = cjson.decode(r._next)
    changes.profile, changes.app, changes._next = placement.profile, placement.app, ''
  end
  append(hash, A.generation, { { t = 'suspended', d = '{}' } })
  change(hash, r, changes)
  return 'suspended'
end

return once(function()
  local r = load(hash)
  if not r then refuse('lease_lost', 'The record of the instance is gone.') end
  if r.fence ~= A.fence then refuse('lease_lost', 'Another worker took the instance over.') end
  if not wanted(r, 'teardown', A.generation) then refuse('superseded', 'This removal has ended already.') end
  if r.state ~= 'removing' then
    refuse('invariant_broken', 'A removal may not end a record that is ' .. r.state .. '.')
  end
  local outcome
  if A.suspended == '1' then outcome = suspend(r)
  elseif r.intent == 'present' then outcome = restart(r)
  else outcome = entomb(r) end
  unlease(hash, A.fence)
  bump('inst:' .. hash)
  return { kind = outcome }
end)
