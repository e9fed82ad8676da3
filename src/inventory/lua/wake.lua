#!lua flags=allow-oom
-- A: keys
return once(function()
  for _, name in ipairs(A.keys) do bump(name) end
  return { kind = 'ok' }
end)
