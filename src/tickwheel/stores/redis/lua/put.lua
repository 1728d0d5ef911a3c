-- Write tasks, if they are as they were read: all of them, or none. What lies in several shards of a cluster is held
-- in each of them first, then written in each; until then nobody else can write or claim it.
--
-- message: how ('now', 'hold', 'write' or 'drop'), token, for how long it is held, {part, tasks, places}, ...
--          tasks {id, header, mark, old, new, value, serial, moment}, the last two as text; '' is nothing, '-' is
--          nothing whose place is looked at apart, and -1 the status of a task that is not there
--          places {id, where it is said to be, where it is to be said to be, whether it may be here}; '' is nowhere else
-- answer:  the ids that are not as they were read, or are held
local how, token, hold_ms, groups = unpack(message)

local function ids_of(list)
  local ids = {}
  for number, each in ipairs(list) do
    ids[number] = each[1]
  end
  return ids
end

local function check(part, tasks, places, wrong)
  local ids = ids_of(tasks)
  local values = batch('HMGET', key(part, 'tasks'), ids)
  local marks = redis.call('EXISTS', key(part, 'running')) == 1 and batch('HMGET', key(part, 'running'), ids) or {}
  local elsewhere = redis.call('EXISTS', key(part, 'where')) == 1
  local any_held = redis.call('EXISTS', key(part, 'held')) == 1
  for number, task in ipairs(tasks) do
    local id, header, mark = task[1], task[2], task[3]
    local value, right = values[number], nil
    if header == '' then
      right = not value and not (elsewhere and redis.call('HEXISTS', key(part, 'where'), id) == 1)
    elseif header == '-' then
      right = not value
    else
      right = value and header_of(value) == header and (marks[number] or '') == mark
    end
    if not right or (any_held and is_held(part, id, token)) then
      wrong[#wrong + 1] = id
    end
  end
  for _, place in ipairs(places) do
    local id, where, _, may_be_here = unpack(place)
    local right = (redis.call('HGET', key(part, 'where'), id) or '') == where
    right = right and (may_be_here or redis.call('HEXISTS', key(part, 'tasks'), id) == 0)
    if not right or is_held(part, id, token) then
      wrong[#wrong + 1] = id
    end
  end
end

-- Let go of what was held, if it still is; return the first that is not.
local function let_go(part, list)
  for _, id in ipairs(ids_of(list)) do
    local hold = redis.call('HGET', key(part, 'held'), id)
    if not hold or string.sub(hold, 1, #token + 1) ~= token .. ' ' then
      return id
    end
    later('HDEL', key(part, 'held'), id)
  end
end

local function write(part, tasks, places)
  for _, task in ipairs(tasks) do
    local id, _, _, old, new, value, serial, moment = unpack(task)
    shelve(part, id, old, new, serial, moment)
    if new >= 0 then
      later('HSET', key(part, 'tasks'), id, value)
    else
      later('HDEL', key(part, 'tasks'), id)
      later('HDEL', key(part, 'last'), id)
      redis.call('DEL', key(part, 'runs:' .. id))
    end
    if old >= OVER and new >= 0 and new < OVER then  -- it has a life before it, and its last run goes before it does
      local attempt, ran_at = string.match(redis.call('HGET', key(part, 'last'), id) or '', '^(%d+) (%d+) ')
      if attempt then
        later('ZADD', key(part, 'ran'), ran_at, id .. '\0' .. attempt)
      end
    end
  end
  for _, place in ipairs(places) do
    if place[3] == '' then
      later('HDEL', key(part, 'where'), place[1])
    else
      later('HSET', key(part, 'where'), place[1], place[3])
    end
  end
end

if how == 'now' or how == 'hold' then
  local wrong = {}
  for _, group in ipairs(groups) do
    check(group[1], group[2], group[3], wrong)
  end
  if #wrong > 0 then
    return wrong
  end
end
for _, group in ipairs(groups) do
  local part, tasks, places = unpack(group)
  if how == 'hold' then
    for _, list in ipairs({tasks, places}) do
      for _, id in ipairs(ids_of(list)) do
        later('HSET', key(part, 'held'), id, string.format('%s %.0f', token, now + hold_ms))
      end
    end
  elseif how ~= 'now' then
    local lost = let_go(part, tasks) or let_go(part, places)
    if lost and how == 'write' then
      return {lost}  -- it took too long, and the hold was over
    end
  end
  if how == 'now' or how == 'write' then
    write(part, tasks, places)
  end
end
write_all()
return {}
