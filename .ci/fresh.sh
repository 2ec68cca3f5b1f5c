#!/bin/sh
#
# fresh.sh SUITE - follow the README on a new Debian, as root: install git and make, clone,
# `make run`, place an order with the command that it prints, `make test`.
#
# The last commit of this checkout is tested. The output is kept in var/fresh-SUITE.log.
set -eu
cd "$(dirname "$0")/.."
suite=${1:?"usage: fresh.sh bookworm|trixie"}
what="new Debian ($suite)"
# shellcheck source=.ci/root-lib.sh
. .ci/root-lib.sh

log=$PWD/var/fresh-$suite.log

# The processes and mounts of the test end with this process.
in_namespaces()
{
    unshare --mount --pid --fork --kill-child --mount-proc -- "$0" "$suite" inside "$root"
}

# This part runs in the namespaces; $3 is the root.
if [ "${2:-}" = inside ]; then
    root=$3
    mkdir -p "$root/proc" "$root/dev/shm"
    mount -t proc proc "$root/proc"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    inside sh /newcomer.sh
    exit
fi

trap remove_root EXIT
trap 'exit 1' HUP INT TERM
make_root "$suite"
git clone -q --no-local . "$root/root/seckill"
ln -sfn /proc/self/fd "$root/dev/fd"

cat >"$root/newcomer.sh" <<'END'
set -eu

seconds()
{
    echo "$(($(date +%s) - start)) s"
}

start=$(date +%s)
apt-get update -qq
apt-get install -y -qq --no-install-recommends git make >/dev/null
cd /root/seckill

make run PORT=18080 >/run.out 2>&1 &
run=$!
until grep -qs '^curl ' /run.out; do
    kill -0 "$run" 2>/dev/null || {
        cat /run.out
        echo "RESULT make run: it ended"
        exit 1
    }
    sleep 0.2
done
reply=$(sh -c "$(grep '^curl ' /run.out) -w '%{http_code}'")
case $reply in
*'"status":"unpaid"'*201) echo "RESULT make run: sells, first order after $(seconds)" ;;
*)
    echo "RESULT make run: the order was answered with $reply"
    exit 1
    ;;
esac
pkill -INT -f load/run.py
wait "$run" || {
    cat /run.out
    echo "RESULT make run: exit code $? at its end"
    exit 1
}

start=$(date +%s)
code=0
make test >/test.out 2>&1 || code=$?
cat /test.out
echo "RESULT make test: $(grep -E "^[0-9]+ passed" /test.out || echo no sum), $(seconds)"
exit "$code"
END

mkdir -p var
code=0
in_namespaces >"$log" 2>&1 || code=$?
sed -n "s/^RESULT /$suite: /p" "$log"
[ "$code" -eq 0 ] || echo "see $log"
exit "$code"
