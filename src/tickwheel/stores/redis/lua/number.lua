-- Take serials for so many new tasks, or give some back, if nobody took any since.
-- message: how many; or how many are given back, as a negative number, and the last that was taken
-- answer:  the last serial that is taken
local serial = '{' .. name .. '}:serial'
local count, last = unpack(message)
if count >= 0 or tonumber(redis.call('GET', serial)) == last then
  return redis.call('INCRBY', serial, count)
end
return 0
