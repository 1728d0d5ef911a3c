-- Take back claims of tasks that turned out to be unreadable: they wait for a node that can read them.
-- message: {part, {id, when it is due}, ...}, ..., until when they were claimed
local asked, last = unpack(message)
local claimed_at = string.format('%.0f', last)
for _, each in ipairs(asked) do
  local part, tasks = unpack(each)
  for _, task in ipairs(tasks) do
    local id, moment = unpack(task)
    local mark = redis.call('HGET', key(part, 'running'), id)
    if mark and string.match(mark, ' (%d+)$') == claimed_at then
      later('HDEL', key(part, 'running'), id)
      later('ZADD', key(part, 'due'), moment, id)
    end
  end
end
write_all()
return {}
