-- Make the commit wait until all records of the WAL before it are durable: unless all WAL is on disk
-- and no standby is named, this writes a record of its own.
select pg_logical_emit_message(true, 'seckill', '')
where pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn()
   or current_setting('synchronous_standby_names') <> ''
