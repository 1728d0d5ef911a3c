-- A row is its serial, or what else it is listed by, its body, when it was claimed, and the fields of `Columns`. Text is
-- read as bytes wherever a row must come, whatever was written into it.
-- name: load
SELECT serial, body, claimed_at, id, status, part, run_at, priority, version, handler, NULL, finished_at
FROM tasks WHERE id IN (SELECT value FROM json_each(?))

-- name: load_misspelled
SELECT serial, body, claimed_at, CAST(id AS BLOB), status, part, run_at, priority, version, CAST(handler AS BLOB), NULL, finished_at
FROM tasks WHERE id = CAST(? AS TEXT)

-- name: insert
INSERT INTO tasks (id, part, status, run_at, priority, version, epoch, finished_at, handler, body)
VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?, ?)
ON CONFLICT (id) DO NOTHING

-- name: renew_task
REPLACE INTO tasks (id, part, status, run_at, priority, version, epoch, finished_at, handler, body)
VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?, ?)

-- name: replace
UPDATE tasks SET part = ?, status = ?, run_at = ?, priority = ?, version = ?, finished_at = ?, handler = ?, body = ?
WHERE serial = ?

-- Only what may change: an index is written for every column of it that is named here, changed or not.
-- name: change
UPDATE tasks SET status = ?, run_at = ?, version = ?, finished_at = ?, body = ? WHERE serial = ?

-- All that are claimed under one epoch in one statement: that is half the work of one for each.
-- name: claim
UPDATE tasks SET status = 2, version = version + 1, epoch = ?, claimed_at = ?
WHERE serial IN (SELECT value FROM json_each(?))

-- name: move
UPDATE tasks SET part = ?, version = ?, body = ? WHERE serial = ?

-- What changed since it was claimed has another version.
-- name: finish
UPDATE tasks SET status = ?, run_at = ?, version = ?, finished_at = ?, body = ?, last_run = ?
WHERE id = ? AND status = 2 AND version = ? AND part = ? AND handler = ? AND priority = ?

-- name: count
UPDATE counts SET tasks = tasks + ? WHERE status = ?

-- name: counts
SELECT status, tasks FROM counts

-- name: add_run
REPLACE INTO runs (id, attempt, finished_at, body) VALUES (?, ?, ?, ?)

-- name: set_last_run
UPDATE tasks SET last_run = ? WHERE serial = ?

-- name: history
SELECT body FROM runs WHERE id = ? ORDER BY attempt DESC LIMIT ?

-- name: last_runs
SELECT id, last_run FROM tasks WHERE id IN (SELECT value FROM json_each(?)) AND last_run IS NOT NULL

-- name: is_past
SELECT EXISTS (SELECT 1 FROM tasks WHERE finished_at < :before AND status > 2)
    OR EXISTS (SELECT 1 FROM runs WHERE finished_at < :before)

-- name: purge_tasks
DELETE FROM tasks WHERE serial IN (SELECT serial FROM tasks WHERE finished_at < ? AND status > 2 LIMIT ?)
RETURNING CAST(id AS BLOB), status

-- name: remove
DELETE FROM tasks WHERE serial = ?

-- name: purge_runs_of
DELETE FROM runs WHERE id = CAST(? AS TEXT)

-- name: purge_runs
DELETE FROM runs WHERE (id, attempt) IN (SELECT id, attempt FROM runs WHERE finished_at < ? LIMIT ?)

-- name: members
SELECT CAST(node AS BLOB), active, CAST(lock AS BLOB), inode, CAST(process AS BLOB), database, expires_at,
       CAST(handlers AS BLOB), CAST(version AS BLOB), ttl_ms
FROM nodes ORDER BY node

-- name: join
REPLACE INTO nodes (node, active, lock, inode, process, database, expires_at, handlers, version)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: publish
UPDATE nodes SET handlers = ?, version = ? WHERE node = ? RETURNING 1

-- name: deactivate
UPDATE nodes SET active = 0 WHERE node = ? AND active = 1 RETURNING 1

-- name: beat
REPLACE INTO nodes (node, expires_at, ttl_ms, handlers, version) VALUES (?, ?, ?, ?, ?)

-- name: leave
DELETE FROM nodes WHERE node = ?

-- name: is_owner
SELECT EXISTS (SELECT 1 FROM partitions WHERE node = ?)

-- name: free
UPDATE partitions SET node = '', expires_at = 0 WHERE node = ? RETURNING part

-- name: leases
SELECT part, node, epoch, expires_at, ttl_ms, checkpoint FROM partitions WHERE node <> '' ORDER BY part

-- name: partitions
SELECT part, node, epoch, nonce, expires_at, ttl_ms, checkpoint FROM partitions ORDER BY part

-- name: lease
UPDATE partitions SET node = ?, epoch = ?, nonce = ?, expires_at = ?, ttl_ms = ? WHERE part = ?

-- It grows, also after the clock was set back.
-- name: renew
UPDATE partitions SET expires_at = max(?, expires_at + 1), ttl_ms = ? WHERE part = ? RETURNING expires_at

-- The nonce stays: until another node has it, its last owner can still finish what ran.
-- name: release
UPDATE partitions SET node = '', expires_at = 0 WHERE part = ?

-- name: next_change
UPDATE changes SET number = number + 1, changed_at = max(changed_at, ?) RETURNING number

-- name: note_changed_at
UPDATE changes SET changed_at = max(changed_at, ?)

-- name: changed_at
SELECT changed_at FROM changes

-- name: clock_steps
SELECT at, step_ms FROM clock_steps

-- name: forget_clock_steps
DELETE FROM clock_steps

-- name: add_clock_step
INSERT INTO clock_steps (at, step_ms) VALUES (?, ?)

-- name: last_change
SELECT number FROM changes

-- name: locks
SELECT CAST(lock AS BLOB) FROM nodes WHERE lock <> ''

-- name: checkpoint
UPDATE partitions SET checkpoint = ? WHERE part = ?

-- The clock was set back, as the next owners of other partitions have to see.
-- name: keep_changed_at
UPDATE partitions SET checkpoint = changed_at FROM changes WHERE ? < changed_at AND checkpoint < changed_at

-- name: forget_changed_at
UPDATE changes SET changed_at = ?

-- Whether it must not run twice is in the body alone: the name may be part of the arguments as well, which does no harm.
-- name: due
SELECT run_at, id, part, priority, version, handler, instr(body, '"at_most_once":true') > 0
FROM tasks INDEXED BY tasks_due
WHERE status = 0 AND (run_at, id) > (?, ?) AND run_at <= ? AND part IN (SELECT value FROM json_each(?))
ORDER BY run_at, id LIMIT ?

-- What is due and of one priority, but for some handlers.
-- name: overdue
SELECT run_at, id, part, priority, version, handler, instr(body, '"at_most_once":true') > 0
FROM tasks INDEXED BY tasks_due
WHERE status = 0 AND +priority = ? AND (run_at, id) > (?, ?) AND (run_at, id) <= (?, ?)
  AND part IN (SELECT value FROM json_each(?)) AND handler NOT IN (SELECT value FROM json_each(?))
ORDER BY run_at, id LIMIT ?

-- name: overdue_ranked
SELECT run_at, id, part, priority, version, handler, instr(body, '"at_most_once":true') > 0
FROM tasks INDEXED BY tasks_ranked
WHERE status = 0 AND priority <> 0 AND priority = ? AND (run_at, id) > (?, ?) AND (run_at, id) <= (?, ?)
  AND part IN (SELECT value FROM json_each(?)) AND handler NOT IN (SELECT value FROM json_each(?))
ORDER BY run_at, id LIMIT ?

-- Where so many rows are passed, if there are more: found in the index alone, which is quick.
-- name: overdue_end
SELECT run_at, CAST(id AS BLOB) FROM tasks INDEXED BY tasks_due
WHERE status = 0 AND ? IS NOT NULL AND (run_at, id) > (?, ?) AND run_at <= ?
ORDER BY run_at, id LIMIT 1 OFFSET ?

-- name: overdue_end_ranked
SELECT run_at, CAST(id AS BLOB) FROM tasks INDEXED BY tasks_ranked
WHERE status = 0 AND priority <> 0 AND priority = ? AND (run_at, id) > (?, ?) AND run_at <= ?
ORDER BY run_at, id LIMIT 1 OFFSET ?

-- name: next_priority
SELECT max(priority) FROM tasks INDEXED BY tasks_ranked WHERE status = 0 AND priority <> 0 AND priority < ?

-- name: running
SELECT part, epoch, serial FROM tasks WHERE status = 2 ORDER BY serial

-- name: load_running
SELECT serial, body, claimed_at, CAST(id AS BLOB), status, part, run_at, priority, version, CAST(handler AS BLOB), NULL, finished_at
FROM tasks WHERE serial = ?

-- The lease under which a row is claimed, if that is the last one of its partition.
-- name: claimed_under
SELECT part, epoch, expires_at, ttl_ms FROM tasks JOIN partitions USING (part, epoch) WHERE serial = ? AND status = 2

-- What is pending, by time: all of it is in the index.
-- name: list_due
SELECT run_at, body, claimed_at, CAST(id AS BLOB), status, part, run_at, priority, version, CAST(handler AS BLOB), NULL, finished_at
FROM tasks INDEXED BY tasks_due
WHERE status = 0 AND (run_at, id) > (:after, :after_id) AND run_at > :due_after AND run_at < :due_before
ORDER BY run_at, id LIMIT :limit

-- name: list_all_newest
SELECT serial, body, claimed_at, CAST(id AS BLOB), status, part, run_at, priority, version, CAST(handler AS BLOB), NULL, finished_at
FROM tasks WHERE serial < :after ORDER BY serial DESC LIMIT :limit

-- name: list_all_oldest
SELECT serial, body, claimed_at, CAST(id AS BLOB), status, part, run_at, priority, version, CAST(handler AS BLOB), NULL, finished_at
FROM tasks WHERE serial > :after ORDER BY serial LIMIT :limit

-- name: list_by_status_newest
SELECT serial, body, claimed_at, CAST(id AS BLOB), status, part, run_at, priority, version, CAST(handler AS BLOB), NULL, finished_at
FROM tasks WHERE status = :status AND serial < :after ORDER BY serial DESC LIMIT :limit

-- name: list_by_status_oldest
SELECT serial, body, claimed_at, CAST(id AS BLOB), status, part, run_at, priority, version, CAST(handler AS BLOB), NULL, finished_at
FROM tasks WHERE status = :status AND serial > :after ORDER BY serial LIMIT :limit

-- name: list_by_handler_newest
SELECT serial, body, claimed_at, CAST(id AS BLOB), status, part, run_at, priority, version, CAST(handler AS BLOB), NULL, finished_at
FROM tasks
WHERE handler = :handler AND serial < :after AND (:status IS NULL OR +status = :status)
ORDER BY serial DESC LIMIT :limit

-- name: list_by_handler_oldest
SELECT serial, body, claimed_at, CAST(id AS BLOB), status, part, run_at, priority, version, CAST(handler AS BLOB), NULL, finished_at
FROM tasks
WHERE handler = :handler AND serial > :after AND (:status IS NULL OR +status = :status)
ORDER BY serial LIMIT :limit

-- A plus keeps an index from being used: here the ids are what narrows the search.
-- name: list_by_prefix_newest
SELECT serial, body, claimed_at, CAST(id AS BLOB), status, part, run_at, priority, version, CAST(handler AS BLOB), NULL, finished_at
FROM tasks
WHERE id >= :low AND id < :high AND +serial < :after
  AND (:status IS NULL OR +status = :status) AND (:handler IS NULL OR +handler = :handler)
ORDER BY +serial DESC LIMIT :limit

-- name: list_by_prefix_oldest
SELECT serial, body, claimed_at, CAST(id AS BLOB), status, part, run_at, priority, version, CAST(handler AS BLOB), NULL, finished_at
FROM tasks
WHERE id >= :low AND id < :high AND +serial > :after
  AND (:status IS NULL OR +status = :status) AND (:handler IS NULL OR +handler = :handler)
ORDER BY +serial LIMIT :limit

-- name: add_partition
INSERT INTO partitions (part) VALUES (?)
