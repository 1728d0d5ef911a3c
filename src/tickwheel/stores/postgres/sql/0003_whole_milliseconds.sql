-- Milliseconds that have passed, not the nearest one: nodes go by this clock, and half a millisecond ahead is early.
CREATE OR REPLACE FUNCTION now_ms(given bigint) RETURNS bigint LANGUAGE sql VOLATILE
AS 'SELECT coalesce(given, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)';
