-- When it was claimed: a claim leaves the body alone, which tells the rest. Of no meaning unless the status is 2 (running),
-- and the body does not say that itself.
ALTER TABLE tasks ADD COLUMN claimed_at INTEGER;
