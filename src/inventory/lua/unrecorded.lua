#!lua flags=no-writes
-- Which of many objects are not the one that their record names, as places in the list from 0, separated by spaces. Nearly
-- all are, so nearly nothing has to be read: a pass over all objects costs little more than their listing.
-- KEYS[1] the inventory's hash tag. ARGV: field of the record, key of the UID in it, 'hash uid' separated by spaces.
local at, found = 0, {}
for hash, uid in string.gmatch(ARGV[3], '(%x+) (%S+)') do
  local value = redis.call('HGET', KEYS[1] .. ':record:' .. hash, ARGV[1])
  local ok, part = pcall(cjson.decode, value or 'null')
  if not ok or type(part) ~= 'table' or part[ARGV[2]] ~= uid then found[#found + 1] = at end
  at = at + 1
end
return table.concat(found, ' ')
