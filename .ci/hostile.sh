#!/bin/sh
#
# hostile.sh - run all tests without the linters twice, as root, on the worst machine: it has just
# booted (a time namespace whose clocks start near zero), two busy processes per core run beside
# the tests, and its disk is flushed all the time.
#
# All processes run in a process namespace, and end with it.
set -u
cd "$(dirname "$0")/.." || exit

# The clock of a time namespace cannot be moved below zero.
in_namespaces()
{
    uptime_s=$(cut -d . -f 1 /proc/uptime)
    unshare --mount --pid --fork --kill-child --mount-proc \
        --time --monotonic "-$uptime_s" --boottime "-$uptime_s" -- "$@"
}

# This part runs in the namespaces.
if [ "${1:-}" = inside ]; then
    echo "-- $(($(nproc) * 2)) busy processes, a busy disk, up since $(cut -d ' ' -f 1 /proc/uptime) s"
    for _ in $(seq $(($(nproc) * 2))); do
        while :; do :; done &
    done
    while :; do
        dd if=/dev/zero of=var/hostile.dd bs=1M count=64 conv=fsync status=none
        sync
    done &
    .ci/test.sh tests
    exit
fi

[ "$(id -u)" -eq 0 ] || {
    echo "hostile.sh: needs root for its namespaces" >&2
    exit 1
}
make --no-print-directory -s -j"$(nproc)" say= programs fuzzers || exit
make --no-print-directory -s -j"$(nproc)" say= SAN=address BUILD="${BUILD:-build}/address" programs || exit
mkdir -p var
trap 'rm -f var/hostile.dd' EXIT
failed=0
for run in 1 2; do
    echo "-- run $run of 2"
    in_namespaces "$0" inside || failed=1
done
exit "$failed"
