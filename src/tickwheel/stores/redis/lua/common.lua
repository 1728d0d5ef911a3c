-- What all scripts have: they are given the store's name, the time if it is not the server's, and a message.
--
-- The keys of a partition have one hash tag, {name:17}, and so are on one server of a cluster:
--
--     lease       HASH    node, epoch, nonce, ends_at, checkpoint, world: who owns it; never expires
--     tasks       HASH    id -> header, newline, the task as JSON
--     due         ZSET    pending ids by when they are due
--     running     HASH    id -> the epoch it was claimed under, a space, the moment: a claim changes nothing else
--     open        ZSET    pending and running ids by the order of arrival; and those that are
--     paused, completed, failed, cancelled    likewise
--     ended       ZSET    ids that are over, by when
--     last        HASH    id -> its last run: attempt, when it was over, the run as JSON, with spaces between them
--     runs:ID     LIST    the runs before that one, latest last; most tasks have none
--     ran         ZSET    id, NUL, attempt by when that run was over; but for the last run of a task that is over as
--                         long as its run: it goes with its task
--     where       HASH    id -> the partition it is in: ids that belong here by their hash, but are elsewhere
--     held        HASH    id -> token, a space, until when: what somebody is about to write in several partitions
--
-- A header is `version attempt priority created_at "handler" serial`. Whoever wants to change a task says which header
-- and which running mark it was read with.

local name, given, message = ARGV[1], tonumber(ARGV[2]), cmsgpack.unpack(ARGV[3])
local MANY = 4000  -- arguments in one call: Lua has room for some 8,000

local keys = {}
local function key(part, what)
  local of_part = keys[part]
  if not of_part then
    of_part = {}
    keys[part] = of_part
  end
  local found = of_part[what]
  if not found then
    found = '{' .. name .. ':' .. part .. '}:' .. what
    of_part[what] = found
  end
  return found
end

local function clock()
  if given >= 0 then
    return given
  end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local now = clock()

-- Call a command with any number of arguments after the first, and join the answers if they are lists.
local function batch(command, first, rest)
  if #rest <= MANY then
    return #rest > 0 and redis.call(command, first, unpack(rest)) or {}
  end
  local all = {}
  for from = 1, #rest, MANY do
    local part = redis.call(command, first, unpack(rest, from, math.min(from + MANY - 1, #rest)))
    if type(part) == 'table' then
      for number = 1, #part do
        all[#all + 1] = part[number]
      end
    end
  end
  return all
end

-- Whether a lease {partition, epoch, nonce} is its holder's still.
local function holds(lease)
  local there = redis.call('HMGET', key(lease[1], 'lease'), 'epoch', 'nonce', 'ends_at')
  return there[1] and tonumber(there[1]) == lease[2] and there[2] == lease[3] and now < tonumber(there[3])
end

-- Whether somebody else is about to write a task.
local function is_held(part, id, token)
  local hold = redis.call('HGET', key(part, 'held'), id)
  if not hold then
    return false
  end
  local by, ends_at = string.match(hold, '^(%S*) (%d+)$')
  if tonumber(ends_at) <= now then
    redis.call('HDEL', key(part, 'held'), id)
    return false
  end
  return by ~= token
end

-- What is to be written is gathered, and written with few commands: in a script a command costs more than a member.
-- Nothing of what is gathered is read again in the same script.
local gathered = {}
local function later(command, where, first, second)
  local commands = gathered[command]
  if not commands then
    commands = {}
    gathered[command] = commands
  end
  local list = commands[where]
  if not list then
    list = {n = 0}  -- to count is faster than to ask for the length
    commands[where] = list
  end
  list[list.n + 1] = first
  list[list.n + 2] = second
  list.n = list.n + (second and 2 or 1)
end

local function write_all()
  for command, lists in pairs(gathered) do
    for where, list in pairs(lists) do
      batch(command, where, list)
    end
  end
end

local SHELVES = {[0] = 'open', 'paused', 'open', 'completed', 'failed', 'cancelled'}  -- by the number of a status
local PENDING, RUNNING, OVER = 0, 2, 3

-- Keep in step with a task's status whatever is derived from it; -1 is a task that is not there.
local function shelve(part, id, old, new, serial, moment)
  local before, after = SHELVES[old], SHELVES[new]
  if old == PENDING and new ~= PENDING then
    later('ZREM', key(part, 'due'), id)
  elseif old == RUNNING and new ~= RUNNING then
    later('HDEL', key(part, 'running'), id)
  elseif old >= OVER and new < OVER then
    later('ZREM', key(part, 'ended'), id)
  end
  if before ~= after then
    if before then
      later('ZREM', key(part, before), id)
    end
    if after then
      later('ZADD', key(part, after), serial, id)
    end
  end
  if new == PENDING then
    later('ZADD', key(part, 'due'), moment, id)
  elseif new >= OVER then
    later('ZADD', key(part, 'ended'), moment, id)
  end
end

local function header_of(value)
  return string.sub(value, 1, (string.find(value, '\n', 1, true) or #value + 1) - 1)
end

-- The first so many pending ids of a partition beyond (moment, id) and until a moment, each followed by its time.
local function soon(part, moment, id, last, limit)
  local due = key(part, 'due')
  local first = '(' .. string.format('%.17g', moment)
  if id == '' or redis.call('ZCOUNT', due, moment, moment) == 0 then
    return redis.call('ZRANGEBYSCORE', due, first, last, 'WITHSCORES', 'LIMIT', 0, limit)
  end
  -- Among those of the same moment, the place right behind that id, which need not be there: a mark finds it.
  local mark = id .. '\0'
  redis.call('ZADD', due, moment, mark)
  local rank = redis.call('ZRANK', due, mark)
  redis.call('ZREM', due, mark)
  local found = redis.call('ZRANGE', due, rank, rank + limit - 1, 'WITHSCORES')
  while #found > 0 and tonumber(found[#found]) > last do
    found[#found], found[#found - 1] = nil, nil
  end
  return found
end
