-- The last statement of a transaction whose result becomes an answer. It makes the commit wait
-- until all WAL up to the commit is durable, whatever synchronous_commit is for the server, the
-- database, the role or an earlier user of the session. If the transaction has written nothing, its
-- commit would not wait. So this statement then writes a WAL record, unless all WAL is on disk and
-- no standby is named.
select set_config('synchronous_commit', case current_setting('synchronous_commit')
                      when 'remote_apply' then 'remote_apply' else 'on' end, true),
       case when pg_current_xact_id_if_assigned() is null
                 and (pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn()
                      or current_setting('synchronous_standby_names') <> '')
            then pg_logical_emit_message(true, 'seckill', '') end
