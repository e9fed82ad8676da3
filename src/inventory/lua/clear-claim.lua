#!lua flags=allow-oom
-- A: member, at. Forgets the claim of that moment: a waiter that was claimed again since is another one's to promote.
return once(function()
  if redis.call('ZSCORE', T .. ':claimed', A.member) == A.at then redis.call('ZREM', T .. ':claimed', A.member) end
  return { kind = 'ok' }
end)
