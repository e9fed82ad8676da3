#!lua flags=allow-oom
-- A: hash, fence. An orderly exit, so the crash budget is full again; a stale fence frees and clears nothing.
return once(function()
  if not unlease(A.hash, A.fence) then return { kind = 'stale' } end
  if redis.call('HGET', key('record', A.hash), 'fence') == A.fence then
    redis.call('HSET', key('record', A.hash), 'crashes', '0')
  end
  return { kind = 'ok' }
end)
