-- Tasks, who owns their partitions, and what their runs came to.
--
-- body is the whole task as JSON; the columns beside it repeat what is searched for and fenced by. While a task is
-- running, body may still say how it was when it was pending: what a claim changes is in status, version, attempt,
-- claimed_at and epoch alone, none of which is in an index. A claim is then a heap-only update, for which a page has
-- to have room: hence the fillfactor.
-- A status is a number: 0 pending, 1 paused, 2 running, 3 completed, 4 failed, 5 cancelled.

CREATE SEQUENCE serials CACHE 1;

CREATE TABLE tasks (
    id          text     COLLATE "C" PRIMARY KEY,
    serial      bigint   NOT NULL DEFAULT nextval('serials'),  -- the order of arrival, by which tasks are listed
    part        integer  NOT NULL,
    status      smallint NOT NULL,
    run_at      bigint   NOT NULL,
    priority    integer  NOT NULL,
    version     bigint   NOT NULL,
    attempt     bigint   NOT NULL,
    epoch       bigint   NOT NULL DEFAULT 0,                   -- of the lease it was last claimed under
    claimed_at  bigint   NOT NULL DEFAULT 0,
    finished_at bigint,                                        -- of tasks that are over
    -- When it is due, from when it is pending until it is not running any more: a claim changes nothing here.
    due_at      bigint   GENERATED ALWAYS AS (CASE WHEN status IN (0, 2) THEN run_at END) STORED,
    -- Where it is listed: running tasks stand with the pending ones, for the same reason.
    shelf       smallint GENERATED ALWAYS AS (CASE status WHEN 2 THEN 0 ELSE status END) STORED,
    handler     text     COLLATE "C" NOT NULL,
    body        text     NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX tasks_due        ON tasks (part, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX tasks_by_status  ON tasks (shelf, serial);
CREATE INDEX tasks_by_handler ON tasks (handler, serial);
CREATE INDEX tasks_ended      ON tasks (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE runs (
    id          text   COLLATE "C" NOT NULL,
    attempt     bigint NOT NULL,
    finished_at bigint NOT NULL,
    body        text   NOT NULL,
    PRIMARY KEY (id, attempt)
);

CREATE INDEX runs_ended ON runs (finished_at);

-- As many rows as there are partitions. Nothing in one was ever claimed that is due after claimed_until, so that what
-- runs is found among few: it is moved ahead by a minute at a time.
CREATE TABLE partitions (
    part          integer PRIMARY KEY,
    node          text    NOT NULL DEFAULT '',
    epoch         bigint  NOT NULL DEFAULT 0,
    nonce         text    NOT NULL DEFAULT '',
    expires_at    bigint  NOT NULL DEFAULT 0,
    checkpoint    bigint  NOT NULL DEFAULT 0,
    claimed_until bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 20);

CREATE TABLE nodes (
    node       text   COLLATE "C" PRIMARY KEY,
    expires_at bigint NOT NULL
);

-- How many tasks there are of each status, as a sum over rows: each session counts in a row of its own, or in one that
-- it shares with few. A row without a slot was left by a transaction of the user's, who must not hold up anyone; such
-- rows are gathered into the others now and then.
CREATE TABLE counts (
    slot      integer UNIQUE,
    pending   bigint NOT NULL DEFAULT 0,
    paused    bigint NOT NULL DEFAULT 0,
    running   bigint NOT NULL DEFAULT 0,
    completed bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);

INSERT INTO counts (slot) SELECT generate_series(0, 63);

-- Where this session counts.
CREATE FUNCTION my_slot() RETURNS integer LANGUAGE sql STABLE AS 'SELECT pg_backend_pid() % 64';

-- The time by which leases end: the server's own, unless a test brings one.
CREATE FUNCTION now_ms(given bigint) RETURNS bigint LANGUAGE sql VOLATILE
AS 'SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)';
