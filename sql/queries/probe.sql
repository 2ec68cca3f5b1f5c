-- Returns 1 while commits wait for synchronous standbys that do not confirm them. This is the case
-- if no standby is connected, or if a commit of this role has waited for a second. Otherwise
-- returns 0. This statement waits for no lock, no disk and no standby. If the role may not read
-- statistics, any WAL sender counts as a standby.
select (current_setting('synchronous_standby_names') <> ''
        and (not exists (select from pg_stat_get_wal_senders()
                         where coalesce(sync_state, 'sync') in ('sync', 'quorum'))
             or exists (select from pg_stat_get_activity(null)
                        where wait_event = 'SyncRep'
                            and state_change < clock_timestamp() - interval '1 s')))::int::bigint
