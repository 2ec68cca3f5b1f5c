#!/bin/sh
#
# systemd.sh BUILD - test the installed service with a real systemd: boot a new Debian with the
# package in a container, with a Postgres and a Redis of this machine on loopback. As root.
set -eu
# shellcheck disable=SC2034 # root-lib.sh uses it
what="service under systemd"
# shellcheck source=.ci/root-lib.sh
. .ci/root-lib.sh

servers=$PWD/var/systemd
container=

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

# boot: start systemd in $root. booted COMMAND...: run a command there.
boot()
{
    systemd-nspawn -q -D "$root" --boot --register=no --keep-unit --console=pipe \
        </dev/null >"$root/boot.log" 2>&1 &
    container=$!
    wait_for 300 is_up || not_run "systemd does not boot: $(tail -n 1 "$root/boot.log")"
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

unit=seckill # the unit of the following functions

# show PROPERTY: print a property of the unit.
show()
{
    booted systemctl show --value -p "$1" "$unit"
}

# shows PROPERTY VALUE: whether the property has this value.
shows()
{
    [ "$(show "$1")" = "$2" ]
}

# expect PROPERTY VALUE: wait until the property has this value.
expect()
{
    wait_for 120 shows "$1" "$2" || fail "$1 is \"$(show "$1")\", expected \"$2\"; the journal:
$(booted journalctl -u "$unit" -n 20 -o cat --no-pager)"
}

# logged EVENT COUNT: whether the journal has this number of lines with EVENT.
logged()
{
    [ "$(booted journalctl -u "$unit" -o cat -q | grep -c " event=$1\b")" -eq "$2" ]
}

expect_logged()
{
    wait_for 120 logged "$@" || fail "event=$1 is not $2 times in the journal"
}

is_ready()
{
    [ "$(status "$url/readyz")" = 200 ]
}

trap end_test EXIT
trap 'exit 1' HUP INT TERM
make_root_with_package "$1"
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
printf '[Service]\nWatchdogSec=15s\n' >"$root/etc/systemd/system/seckill.service.d/test.conf"

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
[ "$(show MainPID)" != "$hung" ] || fail "the hung process was not replaced"
is_ready || fail "not ready after the watchdog"

booted systemctl stop seckill
expect Result success
expect ExecMainStatus 0
expect_logged draining 1
expect_logged stopped 1

unit=seckill-deliver
booted systemctl start "$unit"
expect_logged webhooks_elected 1
booted systemctl stop "$unit"
expect Result success
expect_logged draining 1

# An upgrade must restart the units, and a removal must stop them.
for unit in seckill seckill-deliver; do
    booted systemctl start "$unit"
    show MainPID >"$servers/$unit"
done
booted dpkg -i /seckill.deb >/dev/null
for unit in seckill seckill-deliver; do
    expect ActiveState active
    show MainPID | cmp -s - "$servers/$unit" && fail "an upgrade did not restart $unit"
done
booted dpkg -r seckill >/dev/null
[ "$(status "$url/healthz")" = 000 ] || fail "the service runs although its package is removed"
expect ActiveState inactive
booted systemctl --version | head -n 1
