-- name: load
SELECT serial, id, body FROM tasks WHERE id IN (SELECT value FROM json_each(?))

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

-- name: claim
UPDATE tasks SET status = 2, version = ?, epoch = ?, body = ? WHERE serial = ?

-- What changed since it was claimed has another version.
-- name: finish
UPDATE tasks SET status = ?, run_at = ?, version = ?, finished_at = ?, body = ?
WHERE id = ? AND status = 2 AND version = ? AND part = ? AND handler = ? AND priority = ?

-- name: count
UPDATE counts SET tasks = tasks + ? WHERE status = ?

-- name: counts
SELECT status, tasks FROM counts

-- name: add_run
REPLACE INTO runs (id, attempt, finished_at, body) VALUES (?, ?, ?, ?)

-- name: history
SELECT body FROM runs WHERE id = ? ORDER BY attempt DESC LIMIT ?

-- name: purge_tasks
DELETE FROM tasks WHERE serial IN (SELECT serial FROM tasks WHERE finished_at < ? LIMIT ?) RETURNING id, status

-- name: remove
DELETE FROM tasks WHERE serial = ?

-- name: purge_runs_of
DELETE FROM runs WHERE id = ?

-- name: purge_runs
DELETE FROM runs WHERE (id, attempt) IN (SELECT id, attempt FROM runs WHERE finished_at < ? LIMIT ?)

-- name: heartbeat
REPLACE INTO nodes (node, expires_at) VALUES (?, ?)

-- name: leave
DELETE FROM nodes WHERE node = ?

-- name: forget_the_dead
DELETE FROM nodes WHERE expires_at <= ?

-- name: nodes
SELECT node FROM nodes ORDER BY node

-- name: leases
SELECT part, node, epoch, expires_at, checkpoint FROM partitions WHERE expires_at > ? ORDER BY part

-- name: partitions
SELECT part, epoch, nonce, expires_at, checkpoint FROM partitions ORDER BY part

-- name: lease
UPDATE partitions SET node = ?, epoch = ?, nonce = ?, expires_at = ? WHERE part = ?

-- name: checkpoint
UPDATE partitions SET checkpoint = ? WHERE part = ?

-- name: due
SELECT run_at, id, part, priority, version, handler
FROM tasks INDEXED BY tasks_due
WHERE status = 0 AND (run_at, id) > (?, ?) AND run_at <= ? AND part IN (SELECT value FROM json_each(?))
ORDER BY run_at, id LIMIT ?

-- name: running
SELECT part, epoch, serial FROM tasks WHERE status = 2 ORDER BY serial

-- name: body
SELECT body FROM tasks WHERE serial = ?

-- What is known of a row whose body cannot be read.
-- name: row_by_serial
SELECT body, id, part, status, run_at, priority, version, finished_at, handler FROM tasks WHERE serial = ?

-- name: row_by_id
SELECT body, id, part, status, run_at, priority, version, finished_at, handler FROM tasks WHERE id = ?

-- Whether a row is claimed under a lease that is held now.
-- name: is_held
SELECT 1 FROM tasks JOIN partitions USING (part, epoch) WHERE serial = ? AND status = 2 AND expires_at > ?

-- What is pending, by time: all of it is in the index.
-- name: list_due
SELECT run_at, id, body FROM tasks INDEXED BY tasks_due
WHERE status = 0 AND (run_at, id) > (:after, :after_id) AND run_at > :due_after AND run_at < :due_before
ORDER BY run_at, id LIMIT :limit

-- name: list_all_newest
SELECT serial, '', body FROM tasks WHERE serial < :after ORDER BY serial DESC LIMIT :limit

-- name: list_all_oldest
SELECT serial, '', body FROM tasks WHERE serial > :after ORDER BY serial LIMIT :limit

-- name: list_by_status_newest
SELECT serial, '', body FROM tasks WHERE status = :status AND serial < :after ORDER BY serial DESC LIMIT :limit

-- name: list_by_status_oldest
SELECT serial, '', body FROM tasks WHERE status = :status AND serial > :after ORDER BY serial LIMIT :limit

-- name: list_by_handler_newest
SELECT serial, '', body FROM tasks
WHERE handler = :handler AND serial < :after AND (:status IS NULL OR +status = :status)
ORDER BY serial DESC LIMIT :limit

-- name: list_by_handler_oldest
SELECT serial, '', body FROM tasks
WHERE handler = :handler AND serial > :after AND (:status IS NULL OR +status = :status)
ORDER BY serial LIMIT :limit

-- A plus keeps an index from being used: here the ids are what narrows the search.
-- name: list_by_prefix_newest
SELECT serial, '', body FROM tasks
WHERE id >= :low AND id < :high AND +serial < :after
  AND (:status IS NULL OR +status = :status) AND (:handler IS NULL OR +handler = :handler)
ORDER BY +serial DESC LIMIT :limit

-- name: list_by_prefix_oldest
SELECT serial, '', body FROM tasks
WHERE id >= :low AND id < :high AND +serial > :after
  AND (:status IS NULL OR +status = :status) AND (:handler IS NULL OR +handler = :handler)
ORDER BY +serial LIMIT :limit

-- name: add_partition
INSERT INTO partitions (part) VALUES (?)

-- name: count_partitions
SELECT count(*) FROM partitions
