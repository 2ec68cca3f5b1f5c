-- Answers before the commit is on disk. Nobody sees it until Postgres is killed: then what
-- was not written yet is gone, and with it orders that were acknowledged.
alter role seckill_service in database early_answer set synchronous_commit = off;
alter system set wal_writer_delay = '10s';
alter system set wal_writer_flush_after = '8MB';
select pg_reload_conf();
select pg_terminate_backend(pid) from pg_stat_activity
where usename = 'seckill_service' and datname = 'early_answer'; -- the new ones have it
