-- The last statement of a transaction whose result becomes an answer: whatever the server, the
-- database, the role or an earlier user of the session has set, its commit waits until it is durable,
-- with all records of the WAL before it. Unless all WAL is on disk and no standby is named, a
-- transaction that has written nothing writes a record of its own.
select set_config('synchronous_commit', case current_setting('synchronous_commit')
                      when 'remote_apply' then 'remote_apply' else 'on' end, true),
       case when pg_current_xact_id_if_assigned() is null
                 and (pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn()
                      or current_setting('synchronous_standby_names') <> '')
            then pg_logical_emit_message(true, 'seckill', '') end
