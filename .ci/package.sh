#!/bin/sh
#
# package.sh BUILD - install, run and remove the package of BUILD on a new Debian of this
# machine's release. As root.
set -eu
# shellcheck disable=SC2034 # root-lib.sh uses it
what="package on a new Debian"
# shellcheck source=.ci/root-lib.sh
. .ci/root-lib.sh

pid=

end_test()
{
    [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
    remove_root
}

trap end_test EXIT
trap 'exit 1' HUP INT TERM
make_root_with_package "$1"

apt update
apt install systemd # for systemd-analyze
inside dpkg --get-selections | sort >"$root/before"
apt install ./seckill.deb

inside seckill version | head -n 1
inside seckill serve --help | grep -q SECKILL_REDIS_URL || fail "seckill serve --help"
inside seckill token --user 1 >/dev/null 2>&1 && fail "a token without a secret"
inside env SECKILL_JWT_SECRET=0123456789abcdef0123456789abcdef seckill token --user 1 |
    grep -q '^eyJ' || fail "no token"
# The new Debian has no Python.
[ -x "$root/usr/bin/seckill-top" ] || fail "no seckill-top"
[ -x "$root/usr/bin/seckill-cells" ] || fail "no seckill-cells"
why=$(inside seckill top 2>&1) && fail "seckill top without Python"
echo "$why" | grep 'cannot run seckill-top with Python 3: ' || fail "seckill top: $why"
[ "$(dpkg-deb -f "$package" Recommends)" = "python3, ca-certificates, postgresql-client" ] || fail "recommended: $(dpkg-deb -f "$package" Recommends)"
[ "$(stat -c %a:%u "$root/etc/default/seckill")" = 600:0 ] || fail "the settings are readable by others than root"
inside gzip -t /usr/share/man/man1/seckill.1.gz

for unit in seckill.service seckill-deliver.service; do
    inside systemd-analyze verify --man=no "$unit" || fail "systemd-analyze verify $unit"
    inside systemd-analyze security --offline=yes --threshold=20 "$unit" >"$root/security" ||
        fail "$(cat "$root/security")"
    tail -n 1 "$root/security"
done

# Without servers it is alive, not ready, and stops cleanly.
cat >"$root/serve.sh" <<'END'
SECKILL_JWT_SECRET=0123456789abcdef0123456789abcdef SECKILL_LISTEN=127.0.0.1:0 \
    exec seckill serve 2>/serve.log
END
# Not with inside(): chroot becomes the service, so $! is its process id.
chroot "$root" /bin/sh /serve.sh >/dev/null 2>&1 &
pid=$!
wait_for 120 grep -qs event=serving "$root/serve.log" || fail "the service did not start: $(tail -n 3 "$root/serve.log")"
url=http://127.0.0.1:$(sed -n 's/.*event=serving .*port=\([0-9]*\).*/\1/p' "$root/serve.log")
[ "$(status "$url/healthz") $(status "$url/readyz")" = "200 503" ] ||
    fail "/healthz is $(status "$url/healthz"), /readyz is $(status "$url/readyz")"
kill "$pid"
wait "$pid" || fail "the service ended with code $?"
pid=

apt remove seckill
[ ! -e "$root/usr/bin/seckill" ] || fail "apt remove left the program"
[ -e "$root/etc/default/seckill" ] || fail "apt remove removed the settings"
apt purge seckill
apt autoremove --purge
left=$(find "$root/usr" "$root/etc" "$root/var/lib" "$root/run" -name '*seckill*' | head -n 5)
[ -z "$left" ] || fail "left behind: $left"
inside dpkg --get-selections | sort | diff "$root/before" - || fail "other packages were left"
stat -c '%n %s bytes' "$package"
