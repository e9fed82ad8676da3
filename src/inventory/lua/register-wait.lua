#!lua flags=allow-oom
-- A: member, keys
return once(function() return { numbers = registerWait(A.member, A.keys) } end)
