-- When that was: after a clock that was ahead is set back, this shows it to a node that starts.
ALTER TABLE changes ADD COLUMN changed_at INTEGER NOT NULL DEFAULT 0;
