-- Nodes live as long as they hold their lock file, and leases as long as their node; nothing expires by the clock.

DROP TABLE nodes;

CREATE TABLE nodes (
    node       TEXT    PRIMARY KEY,
    active     INTEGER NOT NULL DEFAULT 1,   -- 0: it wants no partitions, but may still have some
    lock       TEXT    NOT NULL DEFAULT '',  -- the name of its lock file, beside this file; '' where locks do not work
    inode      INTEGER NOT NULL DEFAULT 0,   -- of its lock file
    process    TEXT    NOT NULL DEFAULT '',  -- boot, pid namespace, pid and start time
    database   INTEGER NOT NULL DEFAULT 0,   -- the inode of the database: a copy is another one, and not this node's
    expires_at INTEGER NOT NULL DEFAULT 0    -- of a node without a lock
) STRICT, WITHOUT ROWID;

-- Nobody owned them when the file was migrated.
UPDATE partitions SET node = '', expires_at = 0;

-- The number of the last transaction that other processes should know of.
CREATE TABLE changes (
    number INTEGER NOT NULL
) STRICT;

INSERT INTO changes VALUES (0);
