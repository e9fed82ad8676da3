#!lua flags=allow-oom
-- A: holder, ttl, leases [{ hash, fence, verb, generation, run }]. Answers one word each: ok, superseded or lost.
return once(function()
  local answers = {}
  for i, l in ipairs(A.leases) do
    local held = leaseOf(l[1])
    if not held or held.holder ~= A.holder or held.fence ~= l[2] then
      answers[i] = 'lost'
    else
      redis.call('PEXPIRE', key('lease', l[1]), A.ttl)
      -- Without a record (a sweep's lease) generation and run are 0, until a launch makes one.
      local v = redis.call('HMGET', key('record', l[1]), 'generation', 'run', 'removeUpTo')
      local r = { generation = v[1] or '0', run = v[2] or '0', removeUpTo = v[3] or '0' }
      answers[i] = wanted(r, l[3], l[4], l[5]) and 'ok' or 'superseded'
    end
  end
  return { answers = answers }
end)
