-- How far the wall clock was set forward, and when by the clock as it was after the last step: a node that starts purges
-- nothing by a step that it has not seen. A few rows, replaced together.
CREATE TABLE clock_steps (
    at      INTEGER NOT NULL,
    step_ms INTEGER NOT NULL
) STRICT;
