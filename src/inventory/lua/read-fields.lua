#!lua flags=no-writes
-- Some fields of many records as one JSON array, in the order asked for; null = no record, absent fields are left out. One
-- reply for a page: as many replies as fields cost the reader several times what the rest of a pass over all records does.
-- KEYS[1] the inventory's hash tag. ARGV: 'kind:field' separated by spaces (kind: t = text, r = JSON as it is), hashes
-- separated by spaces.
local fields, texts = {}, {}
for kind, field in string.gmatch(ARGV[1], '(%a):(%a+)') do
  fields[#fields + 1] = field
  texts[#texts + 1] = kind == 't'
end
local records = {}
for hash in string.gmatch(ARGV[2], '%x+') do
  local values = redis.call('HMGET', KEYS[1] .. ':record:' .. hash, unpack(fields))
  local parts = {}
  for i, value in ipairs(values) do
    if value then
      parts[#parts + 1] = '"' .. fields[i] .. '":' .. (texts[i] and cjson.encode(value) or value)
    end
  end
  records[#records + 1] = #parts == 0 and 'null' or '{' .. table.concat(parts, ',') .. '}'
end
return '[' .. table.concat(records, ',') .. ']'
