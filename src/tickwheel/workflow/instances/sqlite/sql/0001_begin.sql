CREATE TABLE definitions (
    hash TEXT PRIMARY KEY,
    process TEXT NOT NULL,
    files TEXT NOT NULL,
    deployed_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX definitions_process ON definitions (process, deployed_at);

CREATE TABLE instances (
    id TEXT PRIMARY KEY,
    process TEXT NOT NULL,
    definition TEXT NOT NULL,
    revision INTEGER NOT NULL,
    handed INTEGER NOT NULL,
    status TEXT NOT NULL,
    timers TEXT NOT NULL,
    data TEXT NOT NULL,
    body TEXT NOT NULL,
    incident TEXT,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    finished_at INTEGER
);
CREATE INDEX instances_unhanded ON instances (id) WHERE handed < revision;
CREATE INDEX instances_running ON instances (id) WHERE finished_at IS NULL;
CREATE INDEX instances_finished ON instances (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE items (
    id TEXT PRIMARY KEY,
    node TEXT NOT NULL,
    state TEXT NOT NULL,
    process TEXT NOT NULL,
    instance TEXT NOT NULL,
    assignee TEXT,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    ended_by TEXT,
    reason TEXT
) WITHOUT ROWID;
CREATE INDEX items_instance ON items (instance, created_at);
CREATE INDEX items_node ON items (node, state, created_at);
CREATE INDEX items_state ON items (state, created_at);

CREATE TABLE notices (
    key TEXT PRIMARY KEY,
    item TEXT NOT NULL,
    kind TEXT NOT NULL,
    target TEXT,
    reason TEXT NOT NULL,
    told_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX notices_item ON notices (item, told_at);
