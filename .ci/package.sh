#!/bin/sh
#
# package.sh BUILD - does the package install, run and go away again on a fresh Debian of
# this machine's release? As root.
set -eu
# shellcheck disable=SC2034 # fresh.sh says it
what="package on a fresh Debian"
# shellcheck source=.ci/fresh.sh
. .ci/fresh.sh

pid=

# Whatever happened, nothing stays.
end_test()
{
    [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
    remove_root
}

trap end_test EXIT
trap 'exit 1' HUP INT TERM
make_root "$1"

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
wait_for 10 grep -qs event=serving "$root/serve.log" || fail "it does not serve: $(tail -n 3 "$root/serve.log")"
url=http://127.0.0.1:$(sed -n 's/.*event=serving .*port=\([0-9]*\).*/\1/p' "$root/serve.log")
[ "$(status "$url/healthz") $(status "$url/readyz")" = "200 503" ] ||
    fail "alive $(status "$url/healthz"), ready $(status "$url/readyz")"
kill "$pid"
wait "$pid" || fail "it ended with code $?"
pid=

apt remove seckill
[ ! -e "$root/usr/bin/seckill" ] || fail "the program is still there"
[ -e "$root/etc/default/seckill" ] || fail "removing took the settings, too"
apt purge seckill
apt autoremove --purge
left=$(find "$root/usr" "$root/etc" "$root/var/lib" "$root/run" -name '*seckill*' | head -n 5)
[ -z "$left" ] || fail "left behind: $left"
inside dpkg --get-selections | sort | diff "$root/before" - || fail "other packages stay"
stat -c '%n %s bytes' "$package"
