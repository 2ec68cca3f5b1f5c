#!/bin/sh
#
# systemd.sh BUILD - does the installed service live well under a real systemd? A fresh
# Debian with the package is booted in a container, with Postgres and Redis of this machine's
# on loopback. As root.
set -eu
# shellcheck disable=SC2034 # fresh.sh says it
what="service under systemd"
# shellcheck source=.ci/fresh.sh
. .ci/fresh.sh

servers=$PWD/var/systemd
container=

# Whatever happened, nothing stays.
end_test()
{
    if [ -n "$container" ]; then
        kill "$container" 2>/dev/null || true
        wait "$container" || true
    fi
    [ ! -d "$servers" ] || load/servers.sh down "$servers"
    rm -rf "$servers"
    remove_root
}

# boot: systemd in $root; booted COMMAND... runs beside it.
boot()
{
    systemd-nspawn -q -D "$root" --boot --register=no --keep-unit --console=pipe \
        </dev/null >"$root/boot.log" 2>&1 &
    container=$!
    wait_for 60 is_up || not_run "systemd does not boot: $(tail -n 1 "$root/boot.log")"
}

is_up()
{
    case $(booted systemctl is-system-running 2>/dev/null) in
    running | degraded) ;;
    *) return 1 ;;
    esac
}

booted()
{
    nsenter -at "$(pgrep -P "$container")" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"
}

# show PROPERTY: of the service.
show()
{
    booted systemctl show --value -p "$1" seckill
}

# shows PROPERTY VALUE
shows()
{
    [ "$(show "$1")" = "$2" ]
}

# expect PROPERTY VALUE: within 20 s.
expect()
{
    wait_for 20 shows "$1" "$2" || fail "$1 is \"$(show "$1")\", expected \"$2\"; the journal:
$(booted journalctl -u seckill -n 20 -o cat --no-pager)"
}

# logged EVENT COUNT: so many lines of it in the journal.
logged()
{
    [ "$(booted journalctl -u seckill -o cat -q | grep -c " event=$1\b")" -eq "$2" ]
}

expect_logged()
{
    wait_for 20 logged "$@" || fail "event=$1 is not $2 times in the journal"
}

is_ready()
{
    [ "$(status "$url/readyz")" = 200 ]
}

trap end_test EXIT
trap 'exit 1' HUP INT TERM
make_root "$1"
need_packages .ci/packages-systemd systemd-nspawn
apt update
apt install systemd
apt install ./seckill.deb
load/servers.sh up "$servers"
load/servers.sh stop "$servers" redis
# shellcheck disable=SC1091
. "$servers/env"
inside env SECKILL_DATABASE_URL="$PG_OWNER_URL" seckill migrate --service-role seckill_service

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port
cat >"$root/etc/default/seckill" <<END
SECKILL_LISTEN=127.0.0.1:$port
SECKILL_DATABASE_URL=$SECKILL_DATABASE_URL
SECKILL_REDIS_URL=$SECKILL_REDIS_URL
SECKILL_JWT_SECRET=0123456789abcdef0123456789abcdef
END
mkdir "$root/etc/systemd/system/seckill.service.d"
printf '[Service]\nWatchdogSec=5s\n' >"$root/etc/systemd/system/seckill.service.d/test.conf"

boot
booted systemctl start --no-block seckill
expect StatusText "Redis is down"
expect ActiveState activating
load/servers.sh start "$servers" redis
expect ActiveState active
is_ready || fail "active, but /readyz says $(status "$url/readyz")"
expect StatusText serving

booted systemctl reload seckill
expect_logged reloaded 1

hung=$(show MainPID)
booted sh -c "kill -STOP $hung"
expect NRestarts 1
expect ActiveState active
[ "$(show MainPID)" != "$hung" ] || fail "the hung one goes on"
is_ready || fail "not ready after the watchdog"

booted systemctl stop seckill
expect Result success
expect ExecMainStatus 0
expect_logged draining 1
expect_logged stopped 1

# Installed again while it runs: it goes on with the new program. Removed: it ends.
booted systemctl start seckill
old=$(show MainPID)
booted dpkg -i /seckill.deb >/dev/null
expect ActiveState active
[ "$(show MainPID)" != "$old" ] || fail "an upgrade does not restart it"
booted dpkg -r seckill >/dev/null
[ "$(status "$url/healthz")" = 000 ] || fail "the package is removed, the service runs"
booted systemctl --version | head -n 1
