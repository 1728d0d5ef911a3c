-- The time by which leases end.
return now
