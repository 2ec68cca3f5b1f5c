-- End the server processes that have the pids $1 and started at the times $2 (of unix_us()). A
-- process that waits for a standby is not ended. Returns how many of the processes still exist.
select count(case when a.wait_event = 'SyncRep' then true else pg_terminate_backend(a.pid) end)
from unnest($1::bigint[], $2::bigint[]) s (pid, start)
join pg_stat_activity a on a.pid = s.pid and unix_us(a.backend_start) = s.start
