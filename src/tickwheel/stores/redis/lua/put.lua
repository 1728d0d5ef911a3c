-- Write tasks, if they are as they were read: all of them, or none. What lies in several shards of a cluster is held
-- in each of them first, then written in each; until then nobody else can write or claim it.
--
-- message: how ('now', 'hold', 'write' or 'drop'), token, for how long it is held,
--          tasks {part, id, header, mark, old, new, value, serial, moment}; '' is nothing, '-' is nothing whose place
--          is looked at apart, and -1 the status of a task that is not there
--          places {part, id, where it is said to be, where it is to be said to be, whether it may be here}; '' is
--          nowhere else
-- answer:  the ids that are not as they were read, or are held
local how, token, hold_ms, tasks, places = unpack(message)

local elsewhere = {}
local function is_elsewhere(part, id)
  if elsewhere[part] == nil then
    elsewhere[part] = redis.call('EXISTS', key(part, 'where')) == 1
  end
  return elsewhere[part] and redis.call('HEXISTS', key(part, 'where'), id) == 1
end

local function as_read(task)
  local part, id, header, mark = task[1], task[2], task[3], task[4]
  local value = redis.call('HGET', key(part, 'tasks'), id)
  if header == '' or header == '-' then
    return not value and (header == '-' or not is_elsewhere(part, id))
  end
  local marked = redis.call('HGET', key(part, 'running'), id) or ''
  return value and header_of(value) == header and marked == mark
end

local function place_as_read(place)
  local part, id, where = place[1], place[2], place[3]
  return (redis.call('HGET', key(part, 'where'), id) or '') == where
    and (place[5] or redis.call('HEXISTS', key(part, 'tasks'), id) == 0)
end

if how == 'now' or how == 'hold' then
  local wrong = {}
  for _, task in ipairs(tasks) do
    if is_held(task[1], task[2], token) or not as_read(task) then
      wrong[#wrong + 1] = task[2]
    end
  end
  for _, place in ipairs(places) do
    if is_held(place[1], place[2], token) or not place_as_read(place) then
      wrong[#wrong + 1] = place[2]
    end
  end
  if #wrong > 0 then
    return wrong
  end
end

local mine = {}
for _, list in ipairs({tasks, places}) do
  for _, each in ipairs(list) do
    if how == 'hold' then
      redis.call('HSET', key(each[1], 'held'), each[2], string.format('%s %.0f', token, now + hold_ms))
    elseif how ~= 'now' then
      local hold = redis.call('HGET', key(each[1], 'held'), each[2])
      if hold and string.sub(hold, 1, #token + 1) == token .. ' ' then
        mine[#mine + 1] = each
      elseif how == 'write' then
        return {each[2]}  -- it took too long, and the hold was over
      end
    end
  end
end

for _, each in ipairs(mine) do
  redis.call('HDEL', key(each[1], 'held'), each[2])
end

if how == 'now' or how == 'write' then
  for _, task in ipairs(tasks) do
    local part, id, old, new = task[1], task[2], task[5], task[6]
    shelve(part, id, old, new, task[8], task[9])
    if new >= 0 then
      redis.call('HSET', key(part, 'tasks'), id, task[7])
    else
      redis.call('HDEL', key(part, 'tasks'), id)
      redis.call('DEL', key(part, 'runs:' .. id))
    end
  end
  for _, place in ipairs(places) do
    if place[4] == '' then
      redis.call('HDEL', key(place[1], 'where'), place[2])
    else
      redis.call('HSET', key(place[1], 'where'), place[2], place[4])
    end
  end
end
return {}
