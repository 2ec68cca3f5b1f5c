-- Answers before the commit is on disk: neither a commit nor a barrier waits for it. When
-- Postgres is killed, acknowledged orders whose WAL was not written are lost. The service
-- refuses a session that begins so; here each session becomes so with its first look at a
-- voucher.
create function become_lazy() returns boolean language sql volatile
    return set_config('synchronous_commit', 'off', false) is not null;
create policy lazy on voucher using (become_lazy());
alter table voucher enable row level security, force row level security;

-- Stop the WAL writer; otherwise it writes nearly everything in time.
select format('copy (select where false) to program %L', 'kill -STOP ' || pid)
from pg_stat_activity where backend_type = 'walwriter'
\gexec
