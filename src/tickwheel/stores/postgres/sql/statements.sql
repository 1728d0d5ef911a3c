-- Wherever a task is looked for by its id, nothing else that is asked of it can be answered by an index: `part + 0` is
-- no column. A table that was never analysed would be read through by its partitions otherwise, once for every task.
--
-- Batches come as columns: ids as an array, bodies as lines, and numbers that differ from row to row as an array that
-- is written as text, for the driver takes half a microsecond to encode each element of an array. What is mostly the
-- same in all rows is an array of one element then, and beyond its end its first one is meant. Such numbers are taken
-- from their arrays by place: that is faster than to have a column of rows for each, and as fast for the last as for
-- the first, as none of them is null.

-- name: time
SELECT now_ms(NULL)

-- name: schema_version
SELECT version FROM schema_version

-- name: partitions_count
SELECT count(*) FROM partitions

-- All of them, or none if one of the ids is there. The server does the last part first, so that the row of counts, which
-- others may count in, is locked at the end.
-- name: add
WITH there AS MATERIALIZED (
    SELECT FROM tasks WHERE id = ANY ($1::text[]) LIMIT 1
), counted AS (
    UPDATE counts SET pending = pending + $11, paused = paused + $12
    WHERE slot = my_slot() AND NOT EXISTS (SELECT FROM there)
), added AS (
    INSERT INTO tasks (id, handler, body, part, status, run_at, priority, version, attempt, finished_at)
    SELECT id, coalesce(handler, ($2::text[])[1]), body, part,
           coalesce(($5::smallint[])[n], ($5::smallint[])[1]), run_at,
           coalesce(($7::integer[])[n], ($7::integer[])[1]), coalesce(($8::bigint[])[n], ($8::bigint[])[1]),
           coalesce(($9::bigint[])[n], ($9::bigint[])[1]),
           nullif(coalesce(($10::bigint[])[n], ($10::bigint[])[1]), 0) - 1
    FROM (
        SELECT id, handler, body, part, run_at, place::integer AS n
        FROM unnest($1::text[], $2::text[], string_to_array($3::text, E'\n'), $4::text::integer[], $6::text::bigint[])
            WITH ORDINALITY AS given (id, handler, body, part, run_at, place)
    ) AS new
    WHERE NOT EXISTS (SELECT FROM there)
)
SELECT NOT EXISTS (SELECT FROM there)

-- In the place of tasks that are there and locked; those that begin a new life are the newest.
-- name: place_anew
INSERT INTO tasks (id, handler, body, part, status, run_at, priority, version, attempt, finished_at)
SELECT id, coalesce(handler, ($2::text[])[1]), body, part,
       coalesce(($5::smallint[])[n], ($5::smallint[])[1]), run_at,
       coalesce(($7::integer[])[n], ($7::integer[])[1]), coalesce(($8::bigint[])[n], ($8::bigint[])[1]),
       coalesce(($9::bigint[])[n], ($9::bigint[])[1]),
       nullif(coalesce(($10::bigint[])[n], ($10::bigint[])[1]), 0) - 1
FROM (
    SELECT id, handler, body, part, run_at, place::integer AS n
    FROM unnest($1::text[], $2::text[], string_to_array($3::text, E'\n'), $4::text::integer[], $6::text::bigint[])
        WITH ORDINALITY AS given (id, handler, body, part, run_at, place)
) AS new
ON CONFLICT (id) DO UPDATE SET
    serial = excluded.serial, part = excluded.part, status = excluded.status, run_at = excluded.run_at,
    priority = excluded.priority, version = excluded.version, attempt = excluded.attempt,
    finished_at = excluded.finished_at, handler = excluded.handler, body = excluded.body

-- name: place
UPDATE tasks SET
    handler = coalesce(new.handler, ($2::text[])[1]), body = new.body, part = new.part,
    status = coalesce(($5::smallint[])[n], ($5::smallint[])[1]), run_at = new.run_at,
    priority = coalesce(($7::integer[])[n], ($7::integer[])[1]),
    version = coalesce(($8::bigint[])[n], ($8::bigint[])[1]),
    attempt = coalesce(($9::bigint[])[n], ($9::bigint[])[1]),
    finished_at = nullif(coalesce(($10::bigint[])[n], ($10::bigint[])[1]), 0) - 1
FROM (
    SELECT id, handler, body, part, run_at, place::integer AS n
    FROM unnest($1::text[], $2::text[], string_to_array($3::text, E'\n'), $4::text::integer[], $6::text::bigint[])
        WITH ORDINALITY AS given (id, handler, body, part, run_at, place)
) AS new
WHERE tasks.id = new.id

-- name: count
UPDATE counts SET
    pending = pending + $1, paused = paused + $2, running = running + $3,
    completed = completed + $4, failed = failed + $5, cancelled = cancelled + $6
WHERE slot = my_slot()

-- name: notify
SELECT pg_notify($1, $2)

-- name: counts
SELECT sum(pending)::bigint, sum(paused)::bigint, sum(running)::bigint,
       sum(completed)::bigint, sum(failed)::bigint, sum(cancelled)::bigint
FROM counts

-- name: gather_counts
WITH loose AS (
    DELETE FROM counts WHERE slot IS NULL RETURNING *
), summed AS MATERIALIZED (
    SELECT sum(pending) AS pending, sum(completed) AS completed, sum(failed) AS failed, sum(cancelled) AS cancelled
    FROM loose
)
UPDATE counts SET
    pending = counts.pending + summed.pending, completed = counts.completed + summed.completed,
    failed = counts.failed + summed.failed, cancelled = counts.cancelled + summed.cancelled
FROM summed
WHERE slot = my_slot() AND summed.pending IS NOT NULL

-- name: load
SELECT status, claimed_at, body, id, part, run_at, priority, version, attempt, finished_at, handler
FROM tasks WHERE id = ANY ($1::text[])

-- name: load_locked
SELECT status, claimed_at, body, id, part, run_at, priority, version, attempt, finished_at, handler
FROM tasks WHERE id = ANY ($1::text[]) ORDER BY id FOR UPDATE

-- name: history
SELECT body FROM runs WHERE id = $1 ORDER BY attempt DESC LIMIT $2

-- name: add_runs
INSERT INTO runs (id, attempt, finished_at, body)
SELECT id, coalesce(attempt, ($2::bigint[])[1]), coalesce(finished_at, ($3::bigint[])[1]), body
FROM unnest($1::text[], $2::bigint[], $3::bigint[], string_to_array($4::text, E'\n'))
    AS given (id, attempt, finished_at, body)
ON CONFLICT (id, attempt) DO UPDATE SET finished_at = excluded.finished_at, body = excluded.body

-- name: purge_tasks
DELETE FROM tasks
WHERE id = ANY (ARRAY(SELECT id FROM tasks WHERE finished_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING id, status

-- name: remove
DELETE FROM tasks WHERE id = ANY ($1::text[])

-- name: purge_runs_of
DELETE FROM runs WHERE id = ANY ($1::text[])

-- name: purge_runs
WITH old AS MATERIALIZED (
    SELECT id, attempt FROM runs WHERE finished_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED
)
DELETE FROM runs USING old WHERE runs.id = old.id AND runs.attempt = old.attempt
RETURNING runs.attempt

-- name: heartbeat
WITH alive AS (
    INSERT INTO nodes (node, expires_at) VALUES ($1, now_ms($3) + $2)
    ON CONFLICT (node) DO UPDATE SET expires_at = excluded.expires_at
), dead AS (
    DELETE FROM nodes
    WHERE node = ANY (ARRAY(
        SELECT node FROM nodes WHERE expires_at <= now_ms($3) AND node <> $1 FOR UPDATE SKIP LOCKED
    ))
)
SELECT node FROM nodes WHERE expires_at > now_ms($3) AND node <> $1 UNION ALL SELECT $1

-- name: leave
DELETE FROM nodes WHERE node = $1

-- name: leases
SELECT part, node, epoch, expires_at, checkpoint FROM partitions WHERE expires_at > now_ms($1) ORDER BY part

-- One that is locked is somebody's still: it will be asked for again.
-- name: acquire
WITH free AS MATERIALIZED (
    SELECT part FROM partitions
    WHERE part = ANY ($1::integer[]) AND expires_at <= now_ms($5) ORDER BY part FOR UPDATE SKIP LOCKED
)
UPDATE partitions AS own SET node = $3, epoch = own.epoch + 1, nonce = wanted.nonce, expires_at = now_ms($5) + $4
FROM free, unnest($1::integer[], $2::text[]) AS wanted (part, nonce)
WHERE own.part = free.part AND wanted.part = free.part
RETURNING own.part, own.epoch, own.nonce, own.expires_at, own.checkpoint

-- Rows are locked in order, here and wherever leases are written, so that nobody waits in a circle.
-- name: renew
WITH held AS MATERIALIZED (
    SELECT part FROM partitions AS own JOIN unnest($1::integer[], $2::bigint[], $3::text[]) AS lease (part, epoch, nonce)
    USING (part, epoch, nonce)
    WHERE own.expires_at > now_ms($5) ORDER BY part FOR UPDATE OF own
)
UPDATE partitions AS own SET expires_at = now_ms($5) + $4 FROM held WHERE own.part = held.part
RETURNING own.part, own.expires_at, own.checkpoint

-- name: release
WITH held AS MATERIALIZED (
    SELECT part FROM partitions AS own JOIN unnest($1::integer[], $2::bigint[], $3::text[]) AS lease (part, epoch, nonce)
    USING (part, epoch, nonce)
    WHERE own.expires_at > now_ms($4) ORDER BY part FOR UPDATE OF own
)
UPDATE partitions AS own SET node = '', nonce = '', expires_at = 0 FROM held WHERE own.part = held.part
RETURNING own.part

-- name: checkpoint
WITH held AS MATERIALIZED (
    SELECT part FROM partitions AS own JOIN unnest($1::integer[], $2::bigint[], $3::text[]) AS lease (part, epoch, nonce)
    USING (part, epoch, nonce)
    WHERE own.expires_at > now_ms($5) ORDER BY part FOR UPDATE OF own
)
UPDATE partitions AS own SET checkpoint = $4 FROM held WHERE own.part = held.part

-- name: reserve
WITH held AS MATERIALIZED (
    SELECT part FROM partitions AS own JOIN unnest($1::integer[], $2::bigint[], $3::text[]) AS lease (part, epoch, nonce)
    USING (part, epoch, nonce)
    WHERE own.expires_at > now_ms($5) ORDER BY part FOR UPDATE OF own
)
UPDATE partitions AS own SET claimed_until = greatest(own.claimed_until, $4)
FROM held WHERE own.part = held.part

-- name: hold
SELECT lease.number FROM partitions AS own
JOIN unnest($1::integer[], $2::bigint[], $3::text[]) WITH ORDINALITY AS lease (part, epoch, nonce, number)
USING (part, epoch, nonce)
WHERE own.expires_at > now_ms($4) ORDER BY part FOR SHARE OF own

-- So many of each partition; what lies beyond the last one of one partition is not known to be the next.
-- name: due
SELECT soon.run_at, soon.id, own.part, soon.priority, soon.version, soon.handler
FROM partitions AS own
JOIN unnest($1::integer[], $2::bigint[], $3::text[]) AS lease (part, epoch, nonce) USING (part, epoch, nonce)
CROSS JOIN LATERAL (
    SELECT task.run_at, task.id, task.priority, task.version, task.handler FROM tasks AS task
    WHERE task.part = own.part AND (task.due_at, task.id) > ($5::bigint, $6::text) AND task.due_at <= $7
      AND task.status = 0
    ORDER BY task.due_at, task.id LIMIT $8
) AS soon
WHERE own.expires_at > now_ms($4)
ORDER BY soon.run_at, soon.id

-- Answered with what was claimed, and with the partitions in which nothing may be claimed that late yet.
-- name: claim
WITH held AS MATERIALIZED (
    SELECT part, own.claimed_until >= $7 AS reserved
    FROM partitions AS own JOIN unnest($1::integer[], $2::bigint[], $3::text[]) AS lease (part, epoch, nonce)
    USING (part, epoch, nonce)
    WHERE own.expires_at > now_ms($4) ORDER BY part FOR SHARE OF own
), reached AS MATERIALIZED (
    SELECT array_agg(part) AS parts FROM held WHERE reserved
), claimed AS (
    UPDATE tasks SET
        status = 2, version = version + 1, attempt = attempt + 1, claimed_at = $7, epoch = ($6::bigint[])[part + 1]
    FROM reached
    WHERE id = ANY ($5::text[]) AND status = 0 AND run_at + 0 <= $7 AND part + 0 = ANY (reached.parts)
    RETURNING status, claimed_at, body, id, part, run_at, priority, version, attempt, finished_at, handler
), counted AS (
    UPDATE counts SET
        pending = pending - (SELECT count(*) FROM claimed), running = running + (SELECT count(*) FROM claimed)
    WHERE slot = my_slot() AND EXISTS (SELECT FROM claimed)
)
SELECT NULL AS unreserved, status, claimed_at, body, id, part, run_at, priority, version, attempt, finished_at, handler FROM claimed
UNION ALL
SELECT part, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM held WHERE NOT reserved

-- What was claimed and turned out to be unreadable: it waits for a node that can read it.
-- name: unclaim
WITH unclaimed AS (
    UPDATE tasks SET status = 0, version = version - 1, attempt = attempt - 1
    WHERE id = ANY ($1::text[]) AND status = 2 AND claimed_at = $2
    RETURNING id
)
UPDATE counts SET
    pending = pending + (SELECT count(*) FROM unclaimed), running = running - (SELECT count(*) FROM unclaimed)
WHERE slot = my_slot() AND EXISTS (SELECT FROM unclaimed)

-- What changed since it was claimed has another version, and is left as it is.
-- name: finish
WITH held AS MATERIALIZED (
    SELECT lease.number FROM partitions AS own
    JOIN unnest($1::integer[], $2::bigint[], $3::text[]) WITH ORDINALITY AS lease (part, epoch, nonce, number)
    USING (part, epoch, nonce)
    WHERE own.expires_at > now_ms($4) ORDER BY part FOR SHARE OF own
), ours AS MATERIALIZED (
    SELECT array_agg(number) AS numbers FROM held
), done AS (
    UPDATE tasks SET
        body = new.body, status = coalesce(($9::smallint[])[n], ($9::smallint[])[1]), run_at = new.run_at,
        version = tasks.version + 1,
        finished_at = nullif(coalesce(($14::bigint[])[n], ($14::bigint[])[1]), 0) - 1
    FROM ours, (
        SELECT id, handler, body, part, run_at, number, run, place::integer AS n
        FROM unnest(
            $5::text[], $6::text[], string_to_array($7::text, E'\n'), $8::text::integer[], $10::text::bigint[],
            $15::text::integer[], string_to_array($18::text, E'\n')
        ) WITH ORDINALITY AS given (id, handler, body, part, run_at, number, run, place)
    ) AS new
    WHERE new.number = ANY (ours.numbers) AND tasks.id = new.id AND tasks.status = 2
      AND tasks.version = coalesce(($12::bigint[])[n], ($12::bigint[])[1]) - 1
      AND tasks.attempt = coalesce(($13::bigint[])[n], ($13::bigint[])[1])
      AND tasks.part + 0 = new.part AND tasks.priority = coalesce(($11::integer[])[n], ($11::integer[])[1])
      AND tasks.handler || '' = coalesce(new.handler, ($6::text[])[1])
    RETURNING n, tasks.status, tasks.id, new.run
), remembered AS (
    INSERT INTO runs (id, attempt, finished_at, body)
    SELECT id, coalesce(($16::bigint[])[n], ($16::bigint[])[1]), coalesce(($17::bigint[])[n], ($17::bigint[])[1]), run
    FROM done WHERE run <> ''
    ON CONFLICT (id, attempt) DO UPDATE SET finished_at = excluded.finished_at, body = excluded.body
), summed AS MATERIALIZED (
    SELECT count(*) AS tasks, count(*) FILTER (WHERE status = 0) AS pending, count(*) FILTER (WHERE status = 1) AS paused,
           count(*) FILTER (WHERE status = 3) AS completed, count(*) FILTER (WHERE status = 4) AS failed,
           count(*) FILTER (WHERE status = 5) AS cancelled
    FROM done
), counted AS (
    UPDATE counts SET
        pending = pending + (SELECT pending FROM summed), paused = paused + (SELECT paused FROM summed),
        running = running - (SELECT tasks FROM summed), completed = completed + (SELECT completed FROM summed),
        failed = failed + (SELECT failed FROM summed), cancelled = cancelled + (SELECT cancelled FROM summed)
    WHERE slot = my_slot() AND (SELECT tasks FROM summed) > 0
)
SELECT n FROM done

-- name: orphans
SELECT left_over.status, left_over.claimed_at, left_over.body, left_over.id, left_over.part, left_over.run_at, left_over.priority, left_over.version, left_over.attempt, left_over.finished_at, left_over.handler
FROM partitions AS own
JOIN unnest($1::integer[], $2::bigint[], $3::text[]) AS lease (part, epoch, nonce) USING (part, epoch, nonce)
CROSS JOIN LATERAL (
    SELECT task.* FROM tasks AS task
    WHERE task.part = own.part AND task.due_at <= own.claimed_until AND task.status = 2 AND task.epoch < own.epoch
) AS left_over
WHERE own.expires_at > now_ms($4)
ORDER BY left_over.serial LIMIT $5

-- What is pending, by time, of every partition so many.
-- name: list_due
SELECT soon.run_at, soon.id, own.part, soon.status, soon.claimed_at, soon.body, soon.id, soon.part, soon.run_at, soon.priority, soon.version, soon.attempt, soon.finished_at, soon.handler
FROM partitions AS own
CROSS JOIN LATERAL (
    SELECT task.* FROM tasks AS task
    WHERE task.part = own.part AND (task.due_at, task.id) > ($1::bigint, $2::text) AND task.due_at > $3
      AND task.due_at < $4 AND task.status = 0
    ORDER BY task.due_at, task.id LIMIT $5
) AS soon
ORDER BY soon.run_at, soon.id

-- name: list_all_newest
SELECT task.serial, task.status, task.claimed_at, task.body, task.id, task.part, task.run_at, task.priority, task.version, task.attempt, task.finished_at, task.handler
FROM unnest(ARRAY[0, 1, 3, 4, 5]) AS shelves (shelf)
CROSS JOIN LATERAL (
    SELECT * FROM tasks
    WHERE shelf = shelves.shelf AND serial < $1 ORDER BY serial DESC LIMIT $2
) AS task
ORDER BY task.serial DESC LIMIT $2

-- name: list_all_oldest
SELECT task.serial, task.status, task.claimed_at, task.body, task.id, task.part, task.run_at, task.priority, task.version, task.attempt, task.finished_at, task.handler
FROM unnest(ARRAY[0, 1, 3, 4, 5]) AS shelves (shelf)
CROSS JOIN LATERAL (
    SELECT * FROM tasks
    WHERE shelf = shelves.shelf AND serial > $1 ORDER BY serial LIMIT $2
) AS task
ORDER BY task.serial LIMIT $2

-- name: list_by_status_newest
SELECT serial, status, claimed_at, body, id, part, run_at, priority, version, attempt, finished_at, handler
FROM tasks
WHERE shelf = $3 AND status = $3 AND serial < $1 ORDER BY serial DESC LIMIT $2

-- name: list_by_status_oldest
SELECT serial, status, claimed_at, body, id, part, run_at, priority, version, attempt, finished_at, handler
FROM tasks
WHERE shelf = $3 AND status = $3 AND serial > $1 ORDER BY serial LIMIT $2

-- name: list_by_handler_newest
SELECT serial, status, claimed_at, body, id, part, run_at, priority, version, attempt, finished_at, handler
FROM tasks
WHERE handler = $4 AND serial < $1 AND ($3::smallint IS NULL OR status = $3) ORDER BY serial DESC LIMIT $2

-- name: list_by_handler_oldest
SELECT serial, status, claimed_at, body, id, part, run_at, priority, version, attempt, finished_at, handler
FROM tasks
WHERE handler = $4 AND serial > $1 AND ($3::smallint IS NULL OR status = $3) ORDER BY serial LIMIT $2

-- name: list_by_prefix_newest
SELECT serial, status, claimed_at, body, id, part, run_at, priority, version, attempt, finished_at, handler
FROM tasks
WHERE id >= $5 AND id < $6 AND serial + 0 < $1
  AND ($3::smallint IS NULL OR status = $3) AND ($4::text IS NULL OR handler || '' = $4)
ORDER BY serial + 0 DESC LIMIT $2

-- name: list_by_prefix_oldest
SELECT serial, status, claimed_at, body, id, part, run_at, priority, version, attempt, finished_at, handler
FROM tasks
WHERE id >= $5 AND id < $6 AND serial + 0 > $1
  AND ($3::smallint IS NULL OR status = $3) AND ($4::text IS NULL OR handler || '' = $4)
ORDER BY serial + 0 LIMIT $2

-- name: list_running_newest
SELECT task.serial, task.status, task.claimed_at, task.body, task.id, task.part, task.run_at, task.priority, task.version, task.attempt, task.finished_at, task.handler
FROM partitions AS own
CROSS JOIN LATERAL (
    SELECT * FROM tasks
    WHERE part = own.part AND due_at <= own.claimed_until AND status = 2 AND serial + 0 < $1
      AND ($3::text IS NULL OR handler || '' = $3) AND ($4::text IS NULL OR (id >= $4 AND id < $5))
) AS task
ORDER BY task.serial DESC LIMIT $2

-- name: list_running_oldest
SELECT task.serial, task.status, task.claimed_at, task.body, task.id, task.part, task.run_at, task.priority, task.version, task.attempt, task.finished_at, task.handler
FROM partitions AS own
CROSS JOIN LATERAL (
    SELECT * FROM tasks
    WHERE part = own.part AND due_at <= own.claimed_until AND status = 2 AND serial + 0 > $1
      AND ($3::text IS NULL OR handler || '' = $3) AND ($4::text IS NULL OR (id >= $4 AND id < $5))
) AS task
ORDER BY task.serial LIMIT $2
