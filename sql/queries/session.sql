-- Begins a session of the service. Returns the server process, whether the role may place orders,
-- and when the server started. Sets statement_timeout, lock_timeout and
-- idle_session_timeout to $1, $2 and $3 ms. The planner settings are needed because plans are made
-- once, and must suit a table of any size, see ../README.md.
select pid::bigint, backend_start,
       coalesce(has_function_privilege(
           to_regprocedure('place_orders(bigint, bigint[], bigint[], text[], boolean[])'),
           'execute'), true)::int,
       pg_postmaster_start_time(),
       set_config('statement_timeout', $1, false),
       set_config('lock_timeout', $2, false),
       set_config('idle_session_timeout', $3, false),
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('plan_cache_mode', 'force_generic_plan', false),
       set_config('enable_seqscan', 'off', false),
       set_config('enable_bitmapscan', 'off', false),
       set_config('enable_sort', 'off', false),
       set_config('enable_hashjoin', 'off', false),
       set_config('enable_mergejoin', 'off', false),
       set_config('jit', 'off', false)
from pg_stat_activity
where pid = pg_backend_pid()
