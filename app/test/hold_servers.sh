#!/bin/sh
#
# hold_servers.sh DIR - run a private Postgres and Redis in DIR and print their URLs. At the end
# of standard input stop them and remove DIR. So the servers end with the process at the other
# end of the pipe, even if it is killed. With SECKILL_TEST_KEEP the files stay.
#
# The data are a copy of var/template-VERSION, which is made once: that is five times faster
# than initdb.
set -eu
dir=$1
template=var/template-$(find /usr/lib/postgresql -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -n | tail -n 1)

make_template()
{
    [ ! -d "$template" ] || return 0
    rm -rf "$template.new"
    load/servers.sh up "$template.new"
    load/servers.sh down "$template.new"
    mv "$template.new" "$template"
}

# The servers must not hold the lock.
(
    flock 9
    make_template 9>&-
) 9>"$template.lock"
trap '[ -n "${SECKILL_TEST_KEEP:-}" ] || rm -rf "$dir"' EXIT
load/servers.sh clone "$dir" "$template"
# The servers run in the background, and this shell closes standard output, so the reader sees its
# end. A background job reads /dev/null unless its standard input is redirected.
exec 3<&0
load/servers.sh hold "$dir" <&3 3<&- &
exec >&-
wait $!
