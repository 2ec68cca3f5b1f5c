-- Answers before the commit is on disk: neither a commit nor a barrier waits for it. When
-- Postgres is killed, acknowledged orders whose WAL was not written are lost.
select format('alter database %I set synchronous_commit = off', current_database())
\gexec

-- Stop the WAL writer; otherwise it writes nearly everything in time.
select format('copy (select where false) to program %L', 'kill -STOP ' || pid)
from pg_stat_activity where backend_type = 'walwriter'
\gexec
