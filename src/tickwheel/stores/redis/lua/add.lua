-- Add pending tasks where their ids belong, all of them, or none if one of the ids is there: what most adds are.
-- message: the serial before theirs if they are to be the next ones, or -1 if theirs were taken before; how many; and
--          {part, tasks}, ... where tasks are id, value, serial, time, id, value, ..., all of them text
-- answer:  1 if they were added, 0 if one is there, -1 if their serials are not the next ones
local before, count, groups = unpack(message)
local serials = '{' .. name .. '}:serial'
if before >= 0 and tonumber(redis.call('GET', serials) or 0) ~= before then
  return -1
end

local USUAL, ALL = {'tasks'}, {'tasks', 'where', 'held'}
for _, group in ipairs(groups) do
  local part, tasks = unpack(group)
  local ids = {}
  for first = 1, #tasks, 4 do
    ids[#ids + 1] = tasks[first]
  end
  local rare = redis.call('EXISTS', key(part, 'where'), key(part, 'held'))
  for _, place in ipairs(rare == 0 and USUAL or ALL) do
    for _, there in ipairs(batch('HMGET', key(part, place), ids)) do
      if there then
        return 0
      end
    end
  end
end

-- Redis keeps up to 128 short members as a list, which it searches from the beginning. A long one, which is no id, makes
-- that a set.
local LONG, MANY_AT_ONCE = string.rep('\0', 65), 8
local function zadd(where, members)
  local grows = #members >= 2 * MANY_AT_ONCE and redis.call('EXISTS', where) == 0
  if grows then
    redis.call('ZADD', where, 0, LONG)
  end
  batch('ZADD', where, members)
  if grows then
    redis.call('ZREM', where, LONG)
  end
end

if before >= 0 then
  redis.call('INCRBY', serials, count)
end
for _, group in ipairs(groups) do
  local part, tasks = unpack(group)
  local values, open, due = {}, {}, {}
  local second = 0
  for first = 1, #tasks, 4 do
    local id = tasks[first]
    second = second + 2
    values[second - 1] = id
    values[second] = tasks[first + 1]
    open[second - 1] = tasks[first + 2]
    open[second] = id
    due[second - 1] = tasks[first + 3]
    due[second] = id
  end
  batch('HSET', key(part, 'tasks'), values)
  zadd(key(part, 'open'), open)
  zadd(key(part, 'due'), due)
end
return 1
