-- Begins a session of the service: its process, whether and how the server can be used, and its
-- settings. $1, $2, $3: statement_timeout, lock_timeout and idle_session_timeout in ms. Plans are
-- made once and must suit a table of any size, see ../README.md.
select pid::bigint, backend_start,
       coalesce(has_function_privilege(
           to_regprocedure('place_orders(bigint, bigint[], bigint[], text[])'), 'execute'), true)::int,
       pg_postmaster_start_time(),
       (current_setting('transaction_read_only') = 'on')::int,
       -- enum durability; without rights on statistics any WAL sender counts as a standby
       case when 'off' in (current_setting('fsync'), current_setting('full_page_writes'),
                           current_setting('synchronous_commit')) then 1
            when current_setting('synchronous_commit') in ('on', 'remote_apply')
                 and current_setting('synchronous_standby_names') <> ''
                 and exists (select from pg_stat_replication
                             where coalesce(sync_state, 'sync') in ('sync', 'quorum')) then 3
            else 2 end,
       -- the cell; -1: an aggregate of cells
       (select min(number) from cell)::bigint,
       (select min(cells) from cell)::bigint,
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
