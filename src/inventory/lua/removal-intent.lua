#!lua flags=allow-oom
-- A: hash, owner (absent = operator), intent, removal (JSON), rawJobId, events, expected { generation, expiresAt } or
--    absent. Works when memory is full: it frees some.
local hash = A.hash

local function answer(kind, r)
  addPending('teardown', hash, r, 1)
  return { kind = kind, generation = r.generation, run = r.run, state = r.state, priority = '1' }
end

-- The waiting launch job must come back and end, so it is moved under the key that publishIntent wakes.
local function takeOutLaunch(r)
  local waiter = 'launch|' .. jobId('launch', hash, r)
  if forgetWait(waiter) == 1 then registerWait(waiter, { 'inst:' .. hash }) end
end

-- A launch that came after a removal of everything has nothing yet. To keep a workspace behind it would keep the one that
-- was to go, since whichever removal runs first does what the record says: data of an old generation would be back (I11).
local function nothingToKeep(r)
  if A.intent ~= 'suspended' or r.removeUpTo == '0' then return false end
  local pending = cjson.decode(redis.call('HGET', key('record', hash), 'removal'))
  return type(pending) == 'table' and pending.keepWorkspace ~= true
end

local function decide()
  local r = load(hash)
  if not r then
    local owner = redis.call('HGET', key('tombstone', hash), 'owner')
    return { kind = owner and (not A.owner or A.owner == owner) and 'gone' or 'missing' }
  end
  if A.owner and A.owner ~= r.owner then return { kind = 'missing' } end
  -- Asked for by a sweep: only of what it looked at, not of what came since.
  local e = A.expected
  if e and (r.generation ~= e.generation or r.expiresAt ~= e.expiresAt) then return { kind = 'changed' } end
  -- Keeping the workspace of something that is already being removed is too late: the stronger intent stays.
  if r.intent == 'absent' or r.intent == A.intent then
    if r.state ~= 'cleanup_pending' then return answer('deduplicated', r) end
    -- Its job gave up; a new run is a new job id, which the queue does not know as finished.
    local run = int(tonumber(r.run) + 1)
    return answer('accepted', change(hash, r, { run = run, removeRun = run }))
  end
  takeOutLaunch(r)
  local changes = { intent = A.intent, generation = generationAfter(r.generation), run = '1', removal = A.removal, _next = '' }
  changes.removeUpTo, changes.removeRun = changes.generation, changes.run
  if nothingToKeep(r) then changes.intent, changes.removal = 'absent', nil end
  local generation = changes.generation
  local after = change(hash, r, changes)
  append(hash, generation, A.events)
  publishIntent(hash, after)
  return answer('accepted', after)
end

return once(function() return oncePerRawJob('teardown', decide) end)
