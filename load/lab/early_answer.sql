-- Answers before the commit is on disk. Nobody sees it until Postgres is killed: then what
-- was not written yet is gone, and with it orders that were acknowledged.
alter function place_orders set synchronous_commit = off;
alter role seckill_service set synchronous_commit = off;
alter system set wal_writer_delay = '10s';
alter system set wal_writer_flush_after = 0;
select pg_reload_conf();
