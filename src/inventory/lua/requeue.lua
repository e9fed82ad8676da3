#!lua flags=allow-oom
-- A: hash, fence, fresh ('1' or ''). Adds the job of a half-way record again: by its id, or, when the queue knows that
-- one as ended, as a new run.
local hash = A.hash

-- A newer launch that waits behind a removal has taken over the record's generation and run.
local function removal(r)
  local behind = r.intent == 'present'
  local run = behind and (r.removeRun ~= '' and r.removeRun or '1') or r.run
  if A.fresh == '1' then
    run = int(tonumber(run) + 1)
    change(hash, r, behind and { removeRun = run } or { run = run, removeRun = run })
  end
  return { instanceId = r.instanceId, generation = behind and r.removeUpTo or r.generation, run = run }
end

return once(function()
  local r = load(hash)
  if not r or r.fence ~= A.fence then return { kind = 'stale' } end
  local verb, job = 'launch', r
  if r.removeUpTo ~= '0' or r.intent ~= 'present' then
    verb, job = 'teardown', removal(r)
  elseif A.fresh == '1' then
    job = change(hash, r, { run = int(tonumber(r.run) + 1) })
  end
  addPending(verb, hash, job, 1)
  return { kind = 'ok', jobId = jobId(verb, hash, job) }
end)
