#!/bin/sh
#
# check.sh DIR - verify the models of this folder with the model checker SPIN: no run breaks a
# guarantee, and each variant that is known to break one does. Works in DIR and leaves the runs
# found there: `cd DIR/lease-UNFENCED && spin -t -p lease.pml` shows one.
set -eu
models=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"

# explore NAME MODEL OPTION...: run spin with these options; the report of pan is NAME/report
explore()
{
    rm -rf "$1"
    mkdir "$1"
    cp "$models/$2.pml" "$1"
    (
        cd "$1"
        model=$2
        shift 2
        spin -a "$@" "$model.pml"
        # shellcheck disable=SC2086 # it may be "ccache gcc"
        ${CC:-cc} -w -O1 -DSAFETY -o pan pan.c
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

# verify NAME MODEL OPTION...: all runs are complete, and no run breaks a guarantee
verify()
{
    explore "$@"
    expect "$1" 'errors: 0$'
    if grep -e 'not completed' -e 'depth too small' "$1/report"; then
        exit 1
    fi
}

# refute MODEL PATTERN VARIANT OPTION...: a run ends with this error
refute()
{
    name=$1-$3
    model=$1
    pattern=$2
    variant=$3
    shift 3
    explore "$name" "$model" "-D$variant" "$@"
    expect "$name" 'errors: 1$' "$pattern" "wrote $model.pml.trail"
}

verify lease lease
expect lease '(0 of .* states)' # every step of a holder occurs in a run
for variant in UNFENCED WRITES_ONLY DRAWN_LATE; do
    refute lease 'assertion violated (base==value)' "$variant"
done

verify cohort cohort
expect cohort '(0 of .* states)'
for variant in UNRESERVED ONE_MORE; do
    refute cohort 'assertion violated (base==value)' "$variant"
done

verify turns turns
expect turns '(0 of .* states)'
refute turns 'invalid end state' UNANNOUNCED
refute turns 'invalid end state' SILENT_AGAIN
refute turns 'assertion violated (missed' ENDLESS

verify semaphore semaphore
expect semaphore '(0 of .* states)'
refute semaphore 'assertion violated (.*<=2)' COUNTED
refute semaphore 'assertion violated (.*<=2)' TWO_STEPS
refute semaphore 'invalid end state' UNLEASED

verify rwlock-turns rwlock
verify rwlock-fences rwlock -DFENCES
verify rwlock-nested-turns rwlock -DNESTED
verify rwlock-nested-fences rwlock -DNESTED -DFENCES
refute rwlock 'assertion violated .*<=due' READERS_FIRST
refute rwlock 'assertion violated (passed\[_pid\]<=1)' WRITERS_FIRST
refute rwlock 'assertion violated (base==value)' READS_UNSEEN -DFENCES
refute rwlock 'assertion violated .*fence>=seen' NESTED_FRESH -DNESTED -DFENCES
refute rwlock 'assertion violated (base==value)' NESTED_LATE -DNESTED -DFENCES
