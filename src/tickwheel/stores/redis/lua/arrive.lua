-- Compare the server with the one that leases were made on: it may have been started again, or be a replica that was
-- promoted, and lack what was written last. Leases of an earlier server end, so that everything is looked at anew; and
-- serials go on beyond those that may have been given since.
-- message: partitions, the server's run id, by how much serials are moved on if they are on this server, otherwise 0
-- answer:  how many leases were ended, and whether there was another server before
local parts, world, gap = unpack(message)
local ended, moved = 0, 0
for _, part in ipairs(parts) do
  local lease = key(part, 'lease')
  local there = redis.call('HMGET', lease, 'world', 'nonce')
  if there[1] ~= world then
    redis.call('HSET', lease, 'world', world)
    if there[1] then
      moved = 1
    end
    if there[1] and there[2] and there[2] ~= '' then
      redis.call('HSET', lease, 'node', '', 'nonce', '', 'ends_at', 0)
      ended = ended + 1
    end
  end
end
local meta = '{' .. name .. '}:meta'
if gap > 0 and redis.call('EXISTS', meta) == 1 then
  local before = redis.call('HGET', meta, 'world')
  if before ~= world then
    redis.call('HSET', meta, 'world', world)
    if before then
      moved = 1
      redis.call('INCRBY', '{' .. name .. '}:serial', gap)
    end
  end
end
return {ended, moved}
