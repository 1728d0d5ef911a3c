-- Tasks, who owns their partitions, and what their runs came to.
--
-- body is the whole task as JSON, and what it says holds; the columns beside it repeat what is searched for.
-- A status is a number: 0 pending, 1 paused, 2 running, 3 completed, 4 failed, 5 cancelled.

CREATE TABLE tasks (
    serial      INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of arrival, by which tasks are listed
    id          TEXT    NOT NULL UNIQUE,
    part        INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    run_at      INTEGER NOT NULL,
    priority    INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,                   -- of the lease it was last claimed under
    finished_at INTEGER,                            -- of tasks that are over
    handler     TEXT    NOT NULL,
    body        BLOB    NOT NULL
) STRICT;

-- By time alone: what is claimed together lies together, and the few processes on one machine each own many partitions.
CREATE INDEX tasks_due        ON tasks (run_at, id, part) WHERE status = 0;
CREATE INDEX tasks_by_status  ON tasks (status);
CREATE INDEX tasks_by_handler ON tasks (handler);
CREATE INDEX tasks_ended      ON tasks (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE runs (
    id          TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    body        BLOB    NOT NULL,
    PRIMARY KEY (id, attempt)
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_ended ON runs (finished_at);

-- As many rows as there are partitions.
CREATE TABLE partitions (
    part       INTEGER PRIMARY KEY,
    node       TEXT    NOT NULL DEFAULT '',
    epoch      INTEGER NOT NULL DEFAULT 0,
    nonce      TEXT    NOT NULL DEFAULT '',
    expires_at INTEGER NOT NULL DEFAULT 0,
    checkpoint INTEGER NOT NULL DEFAULT 0
) STRICT;

-- How many tasks there are of each status: counting millions takes a second, and is asked for all the time.
CREATE TABLE counts (
    status INTEGER PRIMARY KEY,
    tasks  INTEGER NOT NULL
) STRICT;

INSERT INTO counts VALUES (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0);
