#!/bin/sh
#
# package.sh BUILD - does the package install, run and go away again on a fresh Debian of
# this machine's release? As root; in a directory below var, which is removed.
set -eu
build=$1

not_run()
{
    echo "not run: package on a fresh Debian ($*)"
    exit 0
}

fail()
{
    echo "package: $*" >&2
    exit 1
}

[ "$(id -u)" -eq 0 ] || not_run "needs root"
.ci/deps.sh .ci/packages-demo >/dev/null 2>&1 || not_run "debootstrap cannot be installed"
# shellcheck disable=SC1091
tar=$(.ci/root.sh "$(. /etc/os-release && echo "$VERSION_CODENAME")")
package=$(app/install/package.sh "$build" "$(cat VERSION)")

root=$(mktemp -d "$PWD/var/fresh.XXXXXX")
trap 'rm -rf "$root"' EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$root"
tar -C "$root" -xf "$tar"
mkdir -p "$root/var/cache/apt/archives/partial" "$root/var/lib/apt/lists/partial" "$root/var/log/apt"
cp /etc/resolv.conf "$root/etc/"
[ -e "$root/dev/null" ] || mknod -m 666 "$root/dev/null" c 1 3
[ -e "$root/dev/urandom" ] || mknod -m 444 "$root/dev/urandom" c 1 9
cp "$package" "$root/seckill.deb"

inside()
{
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}

apt()
{
    inside apt-get -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "$@" >"$root/apt.log" 2>&1 || {
        tail -n 20 "$root/apt.log" >&2
        fail "apt-get $1"
    }
}

apt update
apt install systemd # for its judgement of the unit
inside dpkg --get-selections | sort >"$root/before"
apt install ./seckill.deb

inside seckill version | head -n 1
inside seckill serve --help | grep -q SECKILL_REDIS_URL || fail "seckill serve --help"
inside seckill token --user 1 >/dev/null 2>&1 && fail "a token without a secret"
inside env SECKILL_JWT_SECRET=0123456789abcdef0123456789abcdef seckill token --user 1 |
    grep -q '^eyJ' || fail "no token"
[ "$(stat -c %a:%u "$root/etc/default/seckill")" = 600:0 ] || fail "who may read the settings?"
inside gzip -t /usr/share/man/man1/seckill.1.gz

inside systemd-analyze verify --man=no seckill.service || fail "systemd-analyze verify"
inside systemd-analyze security --offline=yes seckill.service | tail -n 1

# Without servers: alive, not ready, and ends well.
cat >"$root/serve.sh" <<'END'
SECKILL_JWT_SECRET=0123456789abcdef0123456789abcdef SECKILL_LISTEN=127.0.0.1:0 \
    exec seckill serve 2>/serve.log
END
# Not by inside(): the process to signal is that of chroot, which becomes the service.
chroot "$root" /bin/sh /serve.sh >/dev/null 2>&1 &
pid=$!
trap 'kill "$pid" 2>/dev/null; rm -rf "$root"' EXIT
tries=100
until port=$(sed -n 's/.*event=serving .*port=\([0-9]*\).*/\1/p' "$root/serve.log" 2>/dev/null) && [ -n "$port" ]; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || fail "it does not serve: $(tail -n 3 "$root/serve.log")"
    sleep 0.1
done
status()
{
    curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port$1"
}
[ "$(status /healthz) $(status /readyz)" = "200 503" ] || fail "alive $(status /healthz), ready $(status /readyz)"
kill "$pid"
wait "$pid" || fail "it ended with code $?"
trap 'rm -rf "$root"' EXIT

apt remove seckill
[ ! -e "$root/usr/bin/seckill" ] || fail "the program is still there"
[ -e "$root/etc/default/seckill" ] || fail "removing took the settings, too"
apt purge seckill
apt autoremove --purge
left=$(find "$root/usr" "$root/etc" "$root/var/lib" "$root/run" -name '*seckill*' | head -n 5)
[ -z "$left" ] || fail "left behind: $left"
inside dpkg --get-selections | sort | diff "$root/before" - || fail "other packages stay"
stat -c '%n %s bytes' "$package"
