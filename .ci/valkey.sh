#!/bin/sh
#
# valkey.sh BUILD - run the tests of the lock library with the servers of Debian 13, Valkey 8 and
# Redis 8, as root. The servers are in a Debian root directory; the test programs run on this
# machine. They start `redis-server` by name and find a script, which runs a server of that root
# with its libraries.
set -eu
cd "$(dirname "$0")/.."
build=${1:?"usage: valkey.sh BUILD"}
what="tests on Valkey and Redis of Debian 13"
# shellcheck source=.ci/root-lib.sh
. .ci/root-lib.sh

trap remove_root EXIT
trap 'exit 1' HUP INT TERM
make_root trixie
apt update
apt install valkey-server redis-server

# use_server NAME: make the tests find this server as redis-server.
use_server()
{
    mkdir -p "$root/as-redis"
    cat >"$root/as-redis/redis-server" <<END
#!/bin/sh
exec $(echo "$root"/lib*/ld-linux*.so.*) --library-path "$(echo "$root"/usr/lib/*-linux-gnu)" \\
    "$root/usr/bin/$1" "\$@"
END
    chmod 755 "$root/as-redis/redis-server"
    echo "-- $("$root/as-redis/redis-server" --version | cut -d ' ' -f 1-3)"
}

failed=0
make --no-print-directory -s -j"$(nproc)" say= BUILD="$build" lock-programs
for server in valkey-server redis-server; do
    use_server "$server"
    PATH=$root/as-redis:$PATH make --no-print-directory -s -k -j"$(($(nproc) * 2))" say= \
        BUILD="$build" check-lock || failed=1
done
exit "$failed"
