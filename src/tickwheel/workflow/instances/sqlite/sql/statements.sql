-- name: deploy
INSERT INTO definitions (hash, process, files, deployed_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (hash) DO UPDATE SET deployed_at = max(excluded.deployed_at, deployed_at + 1)

-- name: definition
SELECT hash, process, files FROM definitions WHERE hash = ?1

-- name: latest
SELECT hash, process, files FROM definitions WHERE process = ?1 ORDER BY deployed_at DESC LIMIT 1

-- name: processes
SELECT DISTINCT process FROM definitions ORDER BY process

-- name: get
SELECT id, process, definition, revision, handed, status, timers, data, body, incident, created_at, changed_at, finished_at
FROM instances WHERE id = ?1

-- name: save
INSERT INTO instances (
    id, process, definition, revision, handed, status, timers, data, body, incident, created_at, changed_at, finished_at
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT (id) DO UPDATE SET
    revision = excluded.revision, handed = excluded.handed, status = excluded.status, timers = excluded.timers,
    data = excluded.data, body = excluded.body, incident = excluded.incident, changed_at = excluded.changed_at,
    finished_at = excluded.finished_at

-- name: save_item
INSERT INTO items (id, node, state, process, instance, assignee, created_at, ended_at, ended_by, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (id) DO UPDATE
SET state = excluded.state, ended_at = excluded.ended_at, ended_by = excluded.ended_by, reason = excluded.reason

-- name: find_item
SELECT id, node, state, process, instance, assignee, created_at, ended_at, ended_by, reason FROM items WHERE id = ?1

-- name: pending
SELECT id, node, state, process, instance, assignee, created_at, ended_at, ended_by, reason
FROM items WHERE instance = ?1 AND state = 'pending' ORDER BY created_at

-- name: items_of_instance
SELECT id, node, state, process, instance, assignee, created_at, ended_at, ended_by, reason
FROM items
WHERE instance = ?1 AND (?2 IS NULL OR node = ?2) AND (?3 IS NULL OR state = ?3)
ORDER BY created_at, id LIMIT ?4

-- name: items_at_node
SELECT id, node, state, process, instance, assignee, created_at, ended_at, ended_by, reason
FROM items WHERE node = ?1 AND (?2 IS NULL OR state = ?2) ORDER BY created_at, id LIMIT ?3

-- name: items
SELECT id, node, state, process, instance, assignee, created_at, ended_at, ended_by, reason
FROM items WHERE ?1 IS NULL OR state = ?1 ORDER BY created_at, id LIMIT ?2

-- name: tell
INSERT INTO notices (key, item, kind, target, reason, told_at)
SELECT ?1, id, ?3, coalesce(?4, assignee), ?5, ?6 FROM items WHERE id = ?2 AND state = 'pending'
ON CONFLICT DO NOTHING
RETURNING key, item, kind, target, reason, told_at

-- name: assign
UPDATE items SET assignee = ?2 WHERE id = ?1

-- name: notices
SELECT key, item, kind, target, reason, told_at FROM notices WHERE item = ?1 ORDER BY told_at, key

-- name: report
UPDATE instances SET incident = ?2, changed_at = ?3 WHERE id = ?1

-- name: unhanded
SELECT id, process, definition, revision, handed, status, timers, data, '', incident, created_at, changed_at, finished_at
FROM instances WHERE handed < revision ORDER BY id LIMIT ?1

-- name: hand
UPDATE instances SET handed = ?2 WHERE id = ?1 AND handed < ?2

-- name: waiting
SELECT id, process, definition, revision, handed, status, timers, data, '', incident, created_at, changed_at, finished_at
FROM instances WHERE finished_at IS NULL AND id > ?1 ORDER BY id LIMIT ?2

-- name: finished
SELECT id FROM instances WHERE finished_at < ?1 ORDER BY finished_at LIMIT ?2

-- name: forget_notices
DELETE FROM notices WHERE item IN (SELECT id FROM items WHERE instance = ?1)

-- name: forget_items
DELETE FROM items WHERE instance = ?1

-- name: forget
DELETE FROM instances WHERE id = ?1
