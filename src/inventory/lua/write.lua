#!lua flags=allow-oom
-- A: hash, fence, verb, generation, run, state or absent, set {fields}, events, secrets {name: text or ''}, release,
--    wait { member, keys } or absent, wake [keys]
local hash = A.hash

local function keepSecrets()
  for name, text in pairs(A.secrets) do
    if text == '' then redis.call('HDEL', key('secrets', hash), name)
    else redis.call('HSET', key('secrets', hash), name, text) end
  end
end

-- The first end of a run counts: a second job with the same run finds it and does nothing.
local function settles(r, state)
  if A.verb ~= 'launch' then return false end
  if state == 'ready' or state == 'failed' then return true end
  return (state == 'suspended' or state == 'lost') and (A.set.attemptsLeft or r.attemptsLeft) == '0'
end

return once(function()
  local r = load(hash)
  if not r then refuse('lease_lost', 'The record of the instance is gone.') end
  if r.fence ~= A.fence then refuse('lease_lost', 'Another worker took the instance over.') end
  if not wanted(r, A.verb, A.generation, A.run) then refuse('superseded', 'A newer request took over.') end
  local changes = A.set
  if A.state then
    checkTransition(r.state, A.state)
    changes.state = A.state
    if A.state == 'ready' and not changes.readyAt then changes.readyAt = int(NOW) end
    if settles(r, A.state) then
      -- A worker that dies between this and its release has ended its run: nobody begins it again.
      changes._settled, changes.crashes = A.generation .. '-' .. A.run, '0'
    end
  end
  if A.release == '1' then changes.crashes = '0' end
  change(hash, r, changes)
  keepSecrets()
  append(hash, A.generation, A.events)
  local seen = A.wait and registerWait(A.wait.member, A.wait.keys) or {}
  if A.release == '1' then unlease(hash, A.fence) end
  for _, name in ipairs(A.wake) do bump(name) end
  return { kind = 'ok', numbers = seen }
end)
