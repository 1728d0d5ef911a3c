-- tickwheel_add: a task is added in the transaction of whoever calls it, with any driver, and is there when that commits.
--
-- It does what `add` of a scheduler does, as far as it can from here: whether there is a handler of that name, and
-- which retries it has by default, is known to the processes that run it alone.

-- The checksum of zlib, four bits at a time: an id has to come to the same partition here and in Python.
CREATE FUNCTION crc32(bytes bytea) RETURNS bigint LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    steps CONSTANT bigint[] := ARRAY[
        0, 498536548, 997073096, 651767980, 1994146192, 1802195444, 1303535960, 1342533948,
        3988292384, 4027552580, 3604390888, 3412177804, 2607071920, 2262029012, 2685067896, 3183342108];
    crc bigint := 4294967295;
BEGIN
    FOR place IN 0 .. length(bytes) - 1 LOOP
        crc := crc # get_byte(bytes, place);
        crc := (crc >> 4) # steps[(crc & 15) + 1];
        crc := (crc >> 4) # steps[(crc & 15) + 1];
    END LOOP;
    RETURN crc # 4294967295;
END
$$;

CREATE FUNCTION partition_of(id text) RETURNS integer LANGUAGE sql STABLE STRICT SET search_path FROM CURRENT
AS 'SELECT (crc32(convert_to(id, ''UTF8'')) % (SELECT count(*) FROM partitions))::integer';

-- It writes with the rights of who made the tables: an application needs USAGE of the schema, and nothing else in it.
CREATE FUNCTION tickwheel_add(
    handler      text,
    args         jsonb       DEFAULT '{}',
    delay        interval    DEFAULT NULL,
    run_at       timestamptz DEFAULT NULL,
    id           text        DEFAULT NULL,
    meta         jsonb       DEFAULT '{}',
    tags         text[]      DEFAULT '{}',
    expires_at   timestamptz DEFAULT NULL,
    priority     integer     DEFAULT 0,
    retries      integer     DEFAULT 0,
    timeout_ms   bigint      DEFAULT 300000,
    at_most_once boolean     DEFAULT false,
    on_conflict  text        DEFAULT 'reject'
) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
<<task>>
DECLARE
    now_at  CONSTANT bigint := now_ms(NULL);
    task_id CONSTANT text := coalesce(
        tickwheel_add.id, lpad(to_hex(now_at), 12, '0') || left(replace(gen_random_uuid()::text, '-', ''), 20));
    part    CONSTANT integer := partition_of(task_id);
    due_at  bigint := now_at;
    body    jsonb;
    there   record;
BEGIN
    IF num_nulls(tickwheel_add.handler, args, meta, tags, priority, retries, timeout_ms, at_most_once, on_conflict) > 0 THEN
        RAISE EXCEPTION 'only delay, run_at, id and expires_at may be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF length(task_id) NOT BETWEEN 1 AND 255 OR length(tickwheel_add.handler) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'an id and the name of a handler have 1 to 255 characters'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF delay IS NOT NULL AND tickwheel_add.run_at IS NOT NULL THEN
        RAISE EXCEPTION 'a task has a delay or a time, not both' USING ERRCODE = 'invalid_parameter_value';
    ELSIF delay < interval '0' THEN
        RAISE EXCEPTION 'a delay cannot be negative' USING ERRCODE = 'invalid_parameter_value';
    ELSIF delay IS NOT NULL THEN
        due_at := ceil(extract(epoch FROM clock_timestamp() + delay) * 1000);
    ELSIF tickwheel_add.run_at IN ('infinity', '-infinity') THEN
        RAISE EXCEPTION 'a task is due at some time' USING ERRCODE = 'invalid_parameter_value';
    ELSIF tickwheel_add.run_at IS NOT NULL THEN
        due_at := ceil(extract(epoch FROM tickwheel_add.run_at) * 1000);
    END IF;
    IF due_at NOT BETWEEN 0 AND 9007199254740991 THEN
        RAISE EXCEPTION 'a time is after 1970, and within 285,000 years' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF jsonb_typeof(args) <> 'object' OR jsonb_typeof(meta) <> 'object'
       OR jsonb_path_exists(meta, '$.* ? (@.type() != "string")') THEN
        RAISE EXCEPTION 'args is a JSON object, and meta one of text' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF jsonb_path_exists(args, '$.**{100 to last}')
       OR jsonb_path_exists(args, '$.** ? (@.type() == "number" && (@ > 1.7e308 || @ < -1.7e308))') THEN
        RAISE EXCEPTION 'args are nested less than 100 deep, with numbers below 1.7e308'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF octet_length(args::text) + octet_length(meta::text) > 262144 THEN
        RAISE EXCEPTION 'args and meta are longer than 256 KiB; keep the data elsewhere and pass where it is'
            USING ERRCODE = 'program_limit_exceeded';
    END IF;
    IF retries NOT BETWEEN 0 AND 1000 OR timeout_ms NOT BETWEEN 1 AND 9007199254740991 OR priority < -2147483647 THEN
        RAISE EXCEPTION 'retries are from 0 to 1000, timeout_ms is at least 1, and priority at least -2147483647'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF cardinality(tags) > 20 OR EXISTS (
        SELECT FROM unnest(tags) AS tag WHERE tag IS NULL OR length(tag) NOT BETWEEN 1 AND 64
    ) THEN
        RAISE EXCEPTION 'there are at most 20 tags, of 1 to 64 characters' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF expires_at IN ('infinity', '-infinity') OR expires_at < '1970-01-01 00:00:00+00' THEN
        RAISE EXCEPTION 'a task expires at some time after 1970' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF on_conflict NOT IN ('reject', 'keep') THEN
        RAISE EXCEPTION 'on_conflict is ''reject'' or ''keep'', not %', quote_literal(on_conflict)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    body := jsonb_build_object(
        'id', task_id, 'handler', tickwheel_add.handler, 'args', args, 'meta', meta, 'timeout_ms', timeout_ms,
        'tags', ARRAY(SELECT tag FROM unnest(tags) WITH ORDINALITY AS given (tag, n) GROUP BY tag ORDER BY min(n)),
        'expires_at', floor(extract(epoch FROM expires_at) * 1000)::bigint,
        'retry', jsonb_build_object('retries', retries), 'priority', tickwheel_add.priority,
        'at_most_once', at_most_once, 'partition', part, 'run_at', due_at, 'occurrence_at', due_at,
        'created_at', now_at);
    LOOP
        INSERT INTO tasks (id, part, status, run_at, priority, version, attempt, handler, body)
        VALUES (task_id, task.part, 0, task.due_at, tickwheel_add.priority, 0, 0, tickwheel_add.handler, task.body::text)
        ON CONFLICT (id) DO NOTHING;
        IF FOUND THEN
            INSERT INTO counts (pending) VALUES (1);
            EXIT;
        END IF;
        SELECT status, version, attempt INTO there FROM tasks WHERE tasks.id = task_id FOR UPDATE;
        CONTINUE WHEN NOT FOUND;  -- it was purged just now
        IF on_conflict = 'keep' THEN
            RETURN task_id;
        ELSIF there.status < 3 THEN
            RAISE EXCEPTION 'there is a task % already', quote_literal(task_id)
                USING ERRCODE = 'unique_violation', HINT = 'on_conflict => ''keep'' leaves it as it is.';
        END IF;
        -- One that is over gives its id to the new one; the attempts go on, so that nobody can finish the wrong one.
        body := body || jsonb_build_object('version', there.version + 1, 'attempt', there.attempt);
        UPDATE tasks SET
            serial = nextval('serials'), part = task.part, status = 0, run_at = task.due_at,
            priority = tickwheel_add.priority, version = there.version + 1, finished_at = NULL,
            handler = tickwheel_add.handler, body = task.body::text
        WHERE tasks.id = task_id;
        INSERT INTO counts (pending, completed, failed, cancelled)
        VALUES (1, -(there.status = 3)::integer, -(there.status = 4)::integer, -(there.status = 5)::integer);
        EXIT;
    END LOOP;
    PERFORM pg_notify('tickwheel:' || current_schema, 'sql ' || part);
    RETURN task_id;
END
$$;
