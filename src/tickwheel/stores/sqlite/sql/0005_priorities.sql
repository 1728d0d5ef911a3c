-- Due tasks are read by priority. Those of the usual one are found by time; of the others there are few.
CREATE INDEX tasks_ranked ON tasks (priority DESC, run_at, id, part) WHERE status = 0 AND priority <> 0;
