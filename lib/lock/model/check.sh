#!/bin/sh
#
# check.sh DIR - verify lease.pml with the model checker SPIN: no run has a stale write, and
# each variant that is known to have one does. Works in DIR and leaves the runs found there:
# `cd DIR/UNFENCED && spin -t -p lease.pml` shows one.
set -eu
model=$(cd "$(dirname "$0")" && pwd)/lease.pml
mkdir -p "$1"
cd "$1"

# explore NAME OPTION...: run spin with these options; the report of pan is NAME/report
explore()
{
    rm -rf "$1"
    mkdir "$1"
    cp "$model" "$1"
    (
        cd "$1"
        shift
        spin -a "$@" lease.pml
        # shellcheck disable=SC2086 # it may be "ccache gcc"
        ${CC:-cc} -DSAFETY -o pan pan.c
        ./pan -m10000 >report 2>&1
    )
}

# expect NAME PATTERN...: the report contains each pattern
expect()
{
    report=$1/report
    shift
    for pattern in "$@"; do
        grep -q -e "$pattern" "$report" && continue
        cat "$report"
        echo "check.sh: no '$pattern' in $report"
        exit 1
    done
}

# All runs are complete, and every step of a holder occurs in one of them.
explore fenced
expect fenced 'errors: 0$' '(0 of .* states)'
if grep -e 'not completed' -e 'depth too small' fenced/report; then
    exit 1
fi

for way in UNFENCED WRITES_ONLY DRAWN_LATE; do
    explore "$way" "-D$way"
    expect "$way" 'errors: 1$' 'assertion violated (base==value)' 'wrote lease.pml.trail'
done
