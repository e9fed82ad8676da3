#!lua flags=allow-oom
-- A: hash, fence, fresh ('1' or ''). Adds the job of a half-way record again: by its id, or, when the queue knows that
-- one as ended, as a new run.
local hash = A.hash

local function removal(r)
  if r.intent ~= 'present' then return 'teardown', r end
  -- A newer launch waits behind it: the removal is of an older generation and has no run of its own in the record.
  return 'teardown', { instanceId = r.instanceId, generation = r.removeUpTo, run = A.fresh == '1' and int(NOW) or '1' }
end

return once(function()
  local r = load(hash)
  if not r or r.fence ~= A.fence then return { kind = 'stale' } end
  local removing = r.removeUpTo ~= '0' or r.intent ~= 'present'
  if A.fresh == '1' and not (removing and r.intent == 'present') then
    r = change(hash, r, { run = int(tonumber(r.run) + 1) })
  end
  local verb, job = 'launch', r
  if removing then verb, job = removal(r) end
  addPending(verb, hash, job, 1)
  return { kind = 'ok', jobId = jobId(verb, hash, job) }
end)
