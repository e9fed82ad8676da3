-- Prepended to every script. KEYS[1] is the inventory's hash tag: every key below starts with it, so that all of them
-- live in one cluster slot. ARGV: op id ('' = a read-like script), arguments as JSON whose leaves are strings (Lua
-- numbers would lose digits), events to keep, tombstone ms.
local T, OP, A = KEYS[1], ARGV[1], cjson.decode(ARGV[2])
local KEEP_EVENTS, TOMBSTONE_MS = ARGV[3], ARGV[4]

local OP_MS, WAKE_MS, WAITER_MS, WOKEN_MS = 60000, 3600000, 600000, 60000
local SCHEMA = 1

local function int(n) return string.format('%.0f', n) end
local function key(kind, name) return T .. ':' .. kind .. ':' .. name end

local clock = redis.call('TIME')
local NOW = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local NOW_US = int(tonumber(clock[1]) * 1000000 + tonumber(clock[2]))

-- Refuses; call it before the first write, since Redis does not roll a script back.
local function refuse(code, message) error({ code = code, message = message }) end

-- Runs once per op id: a client that lost the answer sends the same script again and gets the first answer.
local function once(run, hash)
  local answer = OP ~= '' and redis.call('GET', key('op', OP)) or nil
  if not answer then
    local ok, result = pcall(run)
    if not ok then
      if type(result) ~= 'table' or not result.code then error(result) end
      return { cjson.encode({ kind = 'refused', code = result.code, message = result.message }), {} }
    end
    answer = cjson.encode(result)
    if OP ~= '' then redis.call('SET', key('op', OP), answer, 'PX', OP_MS) end
  end
  return { answer, hash and redis.call('HGETALL', key('record', hash)) or {} }
end

-- The diagram of design §5. Staying in a state is always legal; `gone` has no record, so it is not listed.
local LEGAL = {
  requested = { launching = true, removing = true },
  launching = { ready = true, rolling_back = true, removing = true },
  rolling_back = { requested = true, failed = true, suspended = true, lost = true, cleanup_pending = true, removing = true },
  ready = { lost = true, suspended = true, removing = true },
  lost = { launching = true, removing = true },
  suspended = { launching = true, removing = true },
  failed = { launching = true, requested = true, removing = true },
  removing = { suspended = true, requested = true, cleanup_pending = true },
  cleanup_pending = { removing = true, rolling_back = true },
}
local function checkTransition(from, to)
  if from ~= to and not (LEGAL[from] and LEGAL[from][to]) then
    refuse('invariant_broken', 'A record may not go from ' .. from .. ' to ' .. to .. '.')
  end
end

-- What counts against caps (it has, or may have, objects on the cluster), and what waits for its turn.
local LIVE = { launching = true, ready = true, lost = true, removing = true, rolling_back = true, cleanup_pending = true }
local QUEUED = { requested = true, launching = true }

-- The fields that scripts decide on. Those with '_' are bookkeeping that no reader sees.
local BOOK = {
  'schema', 'instanceId', 'owner', 'state', 'before', 'intent', 'generation', 'run', 'removeUpTo', 'removeRun', 'fence', 'cluster',
  'createdAt', 'expiresAt', 'attemptsLeft', 'readyAt', 'version', '_requestHash', '_begun', '_settled', '_next',
}
local function load(hash)
  local values = redis.call('HMGET', key('record', hash), unpack(BOOK))
  if not values[1] then return nil end
  if tonumber(values[1]) > SCHEMA then
    refuse('record_newer', 'The record of instance ' .. (values[2] or hash) .. ' was written by a newer Windlass.')
  end
  local r = {}
  for i, field in ipairs(BOOK) do r[field] = values[i] or '' end
  return r
end

-- Wake numbers come from one counter that never repeats, so that a number seen again means "nothing happened".
local function bump(name)
  redis.call('SET', key('wake', name), redis.call('INCR', T .. ':wakes'), 'PX', WAKE_MS)
  redis.call('PUBLISH', T .. ':wake', name)
end

-- Members sort by creation, so that a listing can be continued after any of them.
local function member(hash, r) return string.format('%015.0f', tonumber(r.createdAt)) .. '-' .. hash end

local function unindex(hash, r)
  local m = member(hash, r)
  redis.call('ZREM', T .. ':all', m)
  redis.call('ZREM', key('state', r.state), m)
  redis.call('ZREM', key('owner', r.owner), m)
  redis.call('SREM', T .. ':live', hash)
  redis.call('SREM', key('live-owner', r.owner), hash)
  redis.call('SREM', key('live-cluster', r.cluster), hash)
  redis.call('SREM', T .. ':launching', hash)
  redis.call('SREM', key('queued', r.owner), hash)
  redis.call('ZREM', T .. ':expiry', hash)
end
local function index(hash, r)
  local m = member(hash, r)
  redis.call('ZADD', T .. ':all', 0, m)
  redis.call('ZADD', key('state', r.state), 0, m)
  redis.call('ZADD', key('owner', r.owner), 0, m)
  if LIVE[r.state] then
    redis.call('SADD', T .. ':live', hash)
    redis.call('SADD', key('live-owner', r.owner), hash)
    redis.call('SADD', key('live-cluster', r.cluster), hash)
  end
  if r.state == 'launching' then redis.call('SADD', T .. ':launching', hash) end
  if QUEUED[r.state] then redis.call('SADD', key('queued', r.owner), hash) end
  if tonumber(r.expiresAt) > 0 then redis.call('ZADD', T .. ':expiry', r.expiresAt, hash) end
end

-- Tells those who wait for a slot. `after` is nil when the record is gone.
local function wakeFreed(r, after)
  local stays = after and after.cluster == r.cluster
  if LIVE[r.state] and not (stays and LIVE[after.state]) then
    bump('owner:' .. r.owner)
  elseif not (r.state == 'launching' and after.state ~= 'launching') then
    return
  end
  bump('cluster:' .. r.cluster)
  bump('global')
end

-- Writes fields (already encoded) and keeps the indexes right; returns the bookkeeping fields as they are then.
local function change(hash, r, changes)
  changes.updatedAt = int(NOW)
  changes.version = int((tonumber(r.version) or 0) + 1)
  local after, args = {}, {}
  for _, field in ipairs(BOOK) do after[field] = changes[field] or r[field] end
  for field, value in pairs(changes) do
    args[#args + 1] = field
    args[#args + 1] = value
  end
  redis.call('HSET', key('record', hash), unpack(args))
  if after.state ~= r.state or after.cluster ~= r.cluster or after.expiresAt ~= r.expiresAt then
    unindex(hash, r)
    index(hash, after)
    wakeFreed(r, after)
  end
  return after
end

-- Appends events ({ t = type, d = JSON of the rest }) with contiguous numbers of their own.
local function append(hash, generation, events)
  if not events or #events == 0 then return end
  local stream = key('events', hash)
  local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
  local seq = last and tonumber(string.match(last[1], '^%d+')) or 0
  for _, event in ipairs(events) do
    seq = seq + 1
    redis.call('XADD', stream, 'MAXLEN', '=', KEEP_EVENTS, int(seq) .. '-0',
      't', event.t, 'g', generation, 'at', int(NOW), 'd', event.d)
  end
  redis.call('PUBLISH', T .. ':event', hash)
end

-- Fences are decimal strings: they may grow past what a Lua number holds exactly.
local function greater(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end
local function plusOne(digits)
  local i = #digits
  while i >= 1 and string.sub(digits, i, i) == '9' do i = i - 1 end
  local zeros = string.rep('0', #digits - i)
  if i == 0 then return '1' .. zeros end
  return string.sub(digits, 1, i - 1) .. int(tonumber(string.sub(digits, i, i)) + 1) .. zeros
end
local function fenceAfter(stored)
  local next = plusOne(stored == '' and '0' or stored)
  return greater(NOW_US, next) and NOW_US or next
end
local function generationAfter(stored) return int(math.max((tonumber(stored) or 0) + 1, NOW)) end

local function leaseOf(hash)
  local v = redis.call('HMGET', key('lease', hash), 'holder', 'fence', 'verb', 'generation', 'run', 'job')
  if not v[1] then return nil end
  return { holder = v[1], fence = v[2], verb = v[3], generation = v[4], run = v[5], job = v[6] }
end
local function lease(hash, fence, verb, generation, run)
  local k = key('lease', hash)
  redis.call('HSET', k, 'holder', A.holder, 'fence', fence, 'verb', verb, 'generation', generation, 'run', run, 'job', A.job or '')
  redis.call('PEXPIRE', k, A.ttl)
end
-- Frees the lease if it is still the one of this fence; a late release of an older one must not free a newer.
local function unlease(hash, fence)
  local held = leaseOf(hash)
  if held and held.fence ~= fence then return false end
  redis.call('DEL', key('lease', hash))
  bump('lease:' .. hash)
  return true
end

-- Whether what this job was asked is still wanted: every newer intent has another generation or run. A removal is never
-- superseded, since it removes all up to its generation; it is over when another one has done that.
local function wanted(r, verb, generation, run)
  if verb == 'teardown' then return tonumber(generation) <= tonumber(r.removeUpTo) end
  return r.generation == generation and r.run == run
end

-- Waiters: `m` = queue|jobId. One zset per wake key, in the order in which the requests were accepted.
local function forgetWait(m)
  for _, name in ipairs(redis.call('SMEMBERS', key('waiting', m))) do
    redis.call('ZREM', key('waiters', name), m)
  end
  redis.call('DEL', key('woken', m))
  redis.call('ZREM', T .. ':claimed', m)
  return redis.call('DEL', key('waiting', m))
end
local function numbers(names)
  local seen = {}
  for _, name in ipairs(names) do seen[name] = redis.call('GET', key('wake', name)) or '0' end
  return seen
end
-- Who was woken for a free slot and now waits for something else did not take it: the next one is woken.
local function passOn(by, names)
  for _, name in ipairs(names) do
    if name == by then return end
  end
  bump(by)
end
local function registerWait(m, names)
  local by = redis.call('GET', key('woken', m))
  forgetWait(m)
  if by then passOn(by, names) end
  local since = string.match(m, '^%a+|%a+%-%x+%-(%d+)%-%d+$') or int(NOW)
  for _, name in ipairs(names) do
    redis.call('ZADD', key('waiters', name), since, m)
    redis.call('PEXPIRE', key('waiters', name), WAITER_MS)
    redis.call('SADD', key('waiting', m), name)
  end
  redis.call('PEXPIRE', key('waiting', m), WAITER_MS)
  return numbers(names)
end

local function jobId(verb, hash, r) return verb .. '-' .. hash .. '-' .. r.generation .. '-' .. r.run end
local function addPending(verb, hash, r, priority)
  local id = jobId(verb, hash, r)
  redis.call('ZADD', T .. ':pending', int(NOW), id)
  redis.call('HSET', T .. ':pending-jobs', id, cjson.encode({
    verb = verb, instanceId = r.instanceId, generation = r.generation, run = r.run, priority = int(priority),
  }))
end

-- Running handlers learn of a newer intent from this message at once, and from their next renewal for certain.
local function publishIntent(hash, r)
  redis.call('PUBLISH', T .. ':intent', table.concat({ hash, r.generation, r.run }, ' '))
  bump('inst:' .. hash)
end

-- A raw job has no generation: what was decided for its id the first time stands, however often it is delivered.
local function oncePerRawJob(verb, decide)
  if A.rawJobId == '' then return decide() end
  local seen = key('raw', verb .. ':' .. A.rawJobId)
  local first = redis.call('GET', seen)
  if first then
    local known = cjson.decode(first)
    known.kind = 'deduplicated'
    return known
  end
  local decided = decide()
  if decided.generation then redis.call('SET', seen, cjson.encode(decided), 'PX', TOMBSTONE_MS) end
  return decided
end
