-- Become the session that expires orders. Returns 1, or 0: another session is.
select pg_try_advisory_lock(5265717970)::int::bigint
