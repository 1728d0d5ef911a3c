-- How long a lease without a lock, and its node, are good for after each renewal. It is told by expires_at, which grows with
-- each, and otherwise says nothing: clocks may be set. The default is that of versions that do not write it.
ALTER TABLE partitions ADD COLUMN ttl_ms INTEGER NOT NULL DEFAULT 3000;
ALTER TABLE nodes ADD COLUMN ttl_ms INTEGER NOT NULL DEFAULT 3000;
