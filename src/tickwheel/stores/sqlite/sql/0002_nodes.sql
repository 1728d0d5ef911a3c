-- Which processes run tasks from this file: as many rows as live, and those that died since one of them last looked.

CREATE TABLE nodes (
    node       TEXT    PRIMARY KEY,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
