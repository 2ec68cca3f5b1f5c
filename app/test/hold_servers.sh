#!/bin/sh
#
# hold_servers.sh DIR - run a private Postgres and Redis in DIR and print their URLs. At the end
# of standard input stop them and remove DIR. So the servers end with the process at the other
# end of the pipe, even if it is killed. With SECKILL_TEST_KEEP the files stay.
#
# The data are a copy of var/template-VERSION, which is made once: that is five times faster
# than initdb. To copy less, it has small segments of the WAL and no database `postgres`. Logins
# use MD5: a client computes for 5 ms to prove a password by SCRAM, and an instance has 17 sessions.
set -eu
dir=$1
template=var/template-$(find /usr/lib/postgresql -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -n | tail -n 1)

make_template()
{
    [ ! -d "$template" ] || return 0
    rm -rf "$template.new"
    PG_WAL_SEGMENT_MB=1 load/servers.sh up "$template.new"
    (
        # shellcheck disable=SC1090
        . "$template.new/settings" && . "$template.new/env"
        psql -XAtq -v ON_ERROR_STOP=1 -v password="$PG_PASSWORD" "$PG_SUPERUSER_URL"
    ) <<'END'
set password_encryption = md5;
alter role postgres password :'password';
alter role seckill password :'password';
alter role seckill_service password :'password';
drop database postgres;
END
    load/servers.sh down "$template.new"
    sed -i s/scram-sha-256/md5/ "$template.new/postgres/pg_hba.conf"
    mv "$template.new" "$template"
}

# The commands run without descriptor 9, because the servers must not hold the lock.
(
    flock 9
    make_template 9>&-
) 9>"$template.lock"
trap '[ -n "${SECKILL_TEST_KEEP:-}" ] || rm -rf "$dir"' EXIT
load/servers.sh clone "$dir" "$template"
# The servers run in the background. This shell closes its standard output, so that the reader sees
# the end of the output. A background job would read /dev/null if its standard input were not
# redirected.
exec 3<&0
load/servers.sh hold "$dir" <&3 3<&- &
exec >&-
wait $!
