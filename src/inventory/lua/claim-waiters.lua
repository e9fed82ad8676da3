#!lua flags=allow-oom
-- A: key, count. A waiter goes to one caller; entries whose job came back by itself are passed over. It stays in `claimed`
-- until it begins or waits again: its caller may die before it promotes the job.
local slot = not string.find(A.key, '^inst:') and not string.find(A.key, '^lease:')

return once(function()
  local claimed = {}
  while #claimed < tonumber(A.count) do
    local m = redis.call('ZPOPMIN', key('waiters', A.key), 1)[1]
    if not m then break end
    if forgetWait(m) == 1 then
      claimed[#claimed + 1] = m
      redis.call('ZADD', T .. ':claimed', int(NOW), m)
      if slot then redis.call('SET', key('woken', m), A.key, 'PX', WOKEN_MS) end
    end
  end
  return { claimed = claimed }
end)
