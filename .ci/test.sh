#!/bin/sh
#
# test.sh all|ci|check|unit|it|lock|interop|lint|web|contract|package|demo - run these checks in
# parallel and print the totals. `tests` is `all` without the linters, and with the tests that only CI
# runs. `ci` is both, and the checks that take longer, need npm and PyPI, or need root.
# The last line is "N passed, N failed". A make target that fails without a failed check, such as a
# file that does not compile, counts as one failure. So does a process that is alive after the
# targets that started it.
set -u
cd "$(dirname "$0")/.." || exit

jobs=${JOBS:-$(($(nproc) * 4))} # more than cores, because the tests mostly wait
BUILD=${BUILD:-build}
mkdir -p "$BUILD"
RESULTS=$(mktemp "$BUILD/results.XXXXXX")
export RESULTS
trap 'rm -f "$RESULTS" "$RESULTS.left"' EXIT
trap 'exit 1' HUP INT TERM
broken=0

# step ARGUMENTS...: run make. The checks count their own failures.
step()
{
    failed_before=$(count_failed)
    .ci/reap.py make --no-print-directory -s -k say= -j"$jobs" "$@" && return
    [ "$(count_failed)" -gt "$failed_before" ] || broken=$((broken + 1))
}

count_failed()
{
    awk '{ n += $2 } END { print n + 0 }' "$RESULTS"
}

echo_step()
{
    printf '\n-- %s\n' "$*"
}

test_lock()
{
    echo_step "the library, its examples, its model"
    step SAN=coverage BUILD="$BUILD/coverage" lock-programs
    find "$BUILD/coverage" -name '*.gcda' -delete
    step SAN=coverage BUILD="$BUILD/coverage" check-lock
    step SAN=coverage BUILD="$BUILD/coverage" check-coverage
    step check-model
    echo_step "with ASan and UBSan"
    step SAN=address BUILD="$BUILD/address" check-lock
    echo_step "with TSan"
    step SAN=thread BUILD="$BUILD/thread" check-lock
    echo_step "with valgrind"
    step UNDER="valgrind --quiet --leak-check=full --error-exitcode=9" check-lock
}

step build/deps.ok # first, so that not two targets do this at the same time
case $1 in
ci)
    step check-ci
    echo_step "changes that a test must notice"
    step check-mutants
    echo_step "the package and the demo"
    step check-package check-demo
    echo_step "failovers and restores"
    step check-failover
    step check-restore
    ;;
check)
    # shellcheck disable=SC2046
    step all check-unit check-changed $(python3 -B .ci/mutants/impact.py "${BASE:-HEAD}" 2>"$RESULTS.left")
    cat "$RESULTS.left"
    ;;
lock) test_lock ;;
all | tests | unit | it | interop | lint | web | contract | package | demo) step "check-$1" ;;
*) echo "test.sh: unknown group of checks: $1" >&2 && exit 2 ;;
esac

echo
awk -v broken="$broken" '
    { passed += $1; failed += $2 }
    $2 { name = $0; sub(/^[0-9]+ [0-9]+ /, "", name); print "failed: " name }
    END {
        printf "%d passed, %d failed\n", passed, failed + broken
        exit failed + broken > 0
    }' "$RESULTS"
