-- Try to become the session that expires orders. Returns 1, or 0 if another session expires orders.
select pg_try_advisory_lock(5265717970)::int::bigint
