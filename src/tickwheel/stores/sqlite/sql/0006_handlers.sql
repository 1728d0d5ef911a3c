-- Which handlers each node has, as JSON, and its version; NULL where it did not say.
ALTER TABLE nodes ADD COLUMN handlers TEXT;
ALTER TABLE nodes ADD COLUMN version TEXT NOT NULL DEFAULT '';
