-- The last run of a task that is over, as in runs: for most tasks it is the only one, and needs no row of its own.
ALTER TABLE tasks ADD COLUMN last_run BLOB;
