-- Make pending tasks running.
-- message: leases, {part, ids}, ..., until when they may be due
-- answer:  id and value of each that was claimed
local leases, asked, last = unpack(message)
local epochs = {}
for _, lease in ipairs(leases) do
  if holds(lease) then
    epochs[lease[1]] = lease[2]
  end
end

local answer = {}
for _, each in ipairs(asked) do
  local part, ids = each[1], each[2]
  if epochs[part] then
    local times = batch('ZMSCORE', key(part, 'due'), ids)
    local mark = string.format('%.0f %.0f', epochs[part], last)
    local claimed, marks = {}, {}
    for number, id in ipairs(ids) do
      local free = times[number] and tonumber(times[number]) <= last
      if free and not is_held(part, id, '') then
        claimed[#claimed + 1] = id
        marks[#marks + 1] = id
        marks[#marks + 1] = mark
      end
    end
    if #claimed > 0 then
      local values = batch('HMGET', key(part, 'tasks'), claimed)
      batch('ZREM', key(part, 'due'), claimed)
      batch('HSET', key(part, 'running'), marks)
      for number, id in ipairs(claimed) do
        answer[#answer + 1] = id
        answer[#answer + 1] = values[number]
      end
    end
  end
end
return answer
