-- Become the session that expires orders. Returns 1; 0: another session expires orders.
select pg_try_advisory_lock(5265717970)::int::bigint
