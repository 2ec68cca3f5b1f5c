-- Returns what the last commit of this session survives, as enum durability; 1 if the server is
-- read-only; when the session read its configuration; the id of its server process; and the cell,
-- which give_half() narrows, or -1 for an aggregate of cells or a receiver of a half. A session
-- reads a changed configuration before its next statement, so the answer is not older than the
-- commit. If the role may not read statistics, any WAL sender counts as a standby.
select case when 'off' in (current_setting('fsync'), current_setting('full_page_writes'),
                           current_setting('synchronous_commit')) then 1
            when current_setting('synchronous_commit') in ('on', 'remote_apply')
                 and current_setting('synchronous_standby_names') <> ''
                 and exists (select from pg_stat_get_wal_senders()
                             where coalesce(sync_state, 'sync') in ('sync', 'quorum')) then 3
            else 2 end,
       (current_setting('transaction_read_only') = 'on')::int,
       pg_conf_load_time(),
       pg_backend_pid()::bigint,
       number::bigint, cells::bigint
from cell
order by number
limit 1
