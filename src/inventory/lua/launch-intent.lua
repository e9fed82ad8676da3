#!lua
-- A: hash, instanceId, owner, requestHash, fresh {fields}, request {fields}, placement {fields}, next, sealedEnv,
--    deadlineMs, class, reconnect ('1' or ''), redrive (generation-run or ''), seen (generation or ''), rawJobId
local hash = A.hash
local CLASS = { high = 0, normal = 1000, low = 2000 }

-- Each further launch of an owner stands behind its earlier ones, so that another owner's first passes a thousand.
local function priority()
  local depth = redis.call('SCARD', key('queued', A.owner))
  return math.max(1, math.min((CLASS[A.class] or CLASS.normal) + depth, 2000000))
end

local function answer(kind, r)
  local depth = priority()
  addPending('launch', hash, r, depth)
  return { kind = kind, generation = r.generation, run = r.run, state = r.state, priority = int(depth) }
end

-- Who asks for a reconnect or a redrive has no secrets to send: those of the launch stay.
local function keepSealed()
  if A.sealedEnv ~= '' then redis.call('HSET', key('secrets', hash), 'sealedEnv', A.sealedEnv)
  elseif A.reconnect ~= '1' and A.redrive == '' then redis.call('HDEL', key('secrets', hash), 'sealedEnv') end
end

local function accept(r, changes)
  for field, value in pairs(A.request) do changes[field] = value end
  changes.intent = 'present'
  changes.deadlineAt = int(NOW + tonumber(A.deadlineMs))
  changes.failure, changes.crashes = 'null', '0'
  -- What has run to its end is only looked at again: its result stays.
  if A.reconnect ~= '1' then changes.exitCode = 'null' end
  -- What was sent anew is all there; a reconnect of a recovered instance brings nothing that was lost back.
  if A.requestHash ~= '' then changes.recovered, changes.missing = 'false', '[]' end
  changes._requestHash = A.requestHash
  local after = change(hash, r, changes)
  keepSealed()
  append(hash, after.generation, { { t = 'requested', d = '{"run":' .. after.run .. '}' } })
  publishIntent(hash, after)
  return answer('accepted', after)
end

local function create(tomb)
  local fields = A.fresh
  for _, part in ipairs({ A.request, A.placement }) do
    for field, value in pairs(part) do fields[field] = value end
  end
  fields.generation, fields.run, fields.fence = generationAfter(tomb[2]), '1', tomb[3] or '0'
  fields.createdAt, fields.deadlineAt = int(NOW), int(NOW + tonumber(A.deadlineMs))
  fields._requestHash = A.requestHash
  redis.call('DEL', key('tombstone', hash), key('secrets', hash))
  redis.call('PERSIST', key('events', hash))
  local r = {}
  for _, field in ipairs(BOOK) do r[field] = fields[field] or '' end
  change(hash, r, fields)
  index(hash, r)
  keepSealed()
  append(hash, r.generation, { { t = 'requested', d = '{"run":1}' } })
  return answer('accepted', r)
end

local function newGeneration(r)
  local changes = { generation = generationAfter(r.generation), run = '1', rebuilds = '0', _next = A.next }
  if r.state == 'failed' then
    redis.call('DEL', key('secrets', hash))
    changes.state, changes.before, changes.stages = 'requested', 'requested', '[]'
    for field, value in pairs(A.placement) do changes[field] = value end
  elseif r.state == 'suspended' and r.removeUpTo == '0' then
    -- The kept claim is on the old cluster, so only what is started on it changes.
    changes.stages, changes.profile, changes.app = '[]', A.placement.profile, A.placement.app
  end
  return accept(r, changes)
end

-- The request of a recovered instance is sent again: from now on it can be rebuilt. What runs is left as it is.
local function complete(r)
  keepSealed()
  return answer('deduplicated', change(hash, r, { request = A.request.request, _requestHash = A.requestHash, missing = '[]' }))
end

-- Only of a run that has ended: one that is under way has its attempts, and a removal is never undone.
local function redrive(r)
  local of = r.generation .. '-' .. r.run
  if of ~= A.redrive or of ~= r._settled or r.intent ~= 'present' or r.removeUpTo ~= '0' then return { kind = 'conflict' } end
  local changes = { run = int(tonumber(r.run) + 1), stages = '[]' }
  if r.state == 'failed' then changes.state, changes.before = 'requested', 'requested' end
  return accept(r, changes)
end

local function decide()
  local r = load(hash)
  local tomb = redis.call('HMGET', key('tombstone', hash), 'owner', 'generation', 'fence')
  local owner = r and r.owner or tomb[1]
  if owner and owner ~= A.owner then return { kind = 'taken' } end
  -- Who asks again for what he has read must not bring back what was torn down since.
  if A.seen ~= '' and (not r or r.generation ~= A.seen) then return { kind = 'overtaken' } end
  if A.redrive ~= '' then return r and redrive(r) or { kind = 'conflict' } end
  if not r then return create(tomb) end
  if r.state == 'failed' or r.intent ~= 'present' then return newGeneration(r) end
  -- From here on the record is live and wanted. Until its job began, the same request is the same request.
  local begun = r._begun == r.generation .. '-' .. r.run
  if begun and r.state == 'suspended' then return newGeneration(r) end
  local forgotten = r._requestHash == ''
  if not forgotten and r._requestHash ~= A.requestHash then return { kind = 'conflict' } end
  if begun and (r.state == 'lost' or (r.state == 'ready' and A.reconnect == '1')) then
    return accept(r, { run = int(tonumber(r.run) + 1), stages = '[]' })
  end
  if forgotten then return complete(r) end
  return answer('deduplicated', r)
end

return once(function() return oncePerRawJob('launch', decide) end)
