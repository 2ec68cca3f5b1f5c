#!/bin/sh
#
# test.sh ci|everything|unit|lock|it|interop|lint|web|package|demo - run these checks, some at
# a time, and sum them up. `ci` is everything and what needs root. Its last line is "N passed,
# N failed". A step of `make` that failed without a check of its own, such as a file that
# does not compile, counts as one.
set -u
cd "$(dirname "$0")/.." || exit

jobs=$(($(nproc) + 1)) # tests wait more than they work
BUILD=${BUILD:-build}
mkdir -p "$BUILD"
RESULTS=$(mktemp "$BUILD/results.XXXXXX")
export RESULTS
trap 'rm -f "$RESULTS"' EXIT
trap 'exit 1' HUP INT TERM
broken=0

# step ARGUMENTS...: of make. The checks count their own failures.
step()
{
    before=$(count_failed)
    make --no-print-directory -s -k say= -j"$jobs" "$@" && return
    [ "$(count_failed)" -gt "$before" ] || broken=$((broken + 1))
}

count_failed()
{
    awk '{ n += $2 } END { print n + 0 }' "$RESULTS"
}

echo_step()
{
    printf '\n-- %s\n' "$*"
}

build_all()
{
    echo_step "build, with gcc, with ASan and UBSan, with clang, for fuzzing"
    step programs
    step SAN=address BUILD="$BUILD/address" programs
    step CC=clang BUILD="$BUILD/clang" programs
    step fuzzers
}

# The lock library by itself, as a program that takes it would want to know it.
test_lock()
{
    echo_step "the library, its examples, its model"
    step SAN=coverage BUILD="$BUILD/coverage" lock-programs
    find "$BUILD/coverage" -name '*.gcda' -delete
    step SAN=coverage BUILD="$BUILD/coverage" check-lock
    step SAN=coverage BUILD="$BUILD/coverage" check-coverage
    step check-model
    echo_step "under ASan and UBSan"
    step SAN=address BUILD="$BUILD/address" check-lock
    echo_step "under TSan"
    step SAN=thread BUILD="$BUILD/thread" check-lock
    echo_step "under valgrind"
    step UNDER="valgrind --quiet --leak-check=full --error-exitcode=9" check-lock
}

test_everything()
{
    build_all
    echo_step lint
    step check-lint
    echo_step tests
    step check-unit check-load-units check-gdb check-it check-model check-install check-interop
    echo_step "tests under ASan and UBSan"
    step SAN=address BUILD="$BUILD/address" check-unit check-it
    echo_step "fuzzers, seconds each"
    step check-fuzz
    echo_step "the pages, in a browser"
    step check-web
    echo_step "the docs"
    step check-docs
    echo_step "load proof, bench"
    step check-proof
    step check-bench
}

case $1 in
everything) test_everything ;;
ci)
    test_everything
    echo_step "package, on a fresh Debian; demo, in containers"
    step check-package
    step check-demo
    ;;
lock) test_lock ;;
unit) step check-unit check-load-units check-gdb ;;
it | interop | lint | web | package | demo) step "check-$1" ;;
*) echo "test.sh: what is $1?" >&2 && exit 2 ;;
esac

echo
awk -v broken="$broken" '{ passed += $1; failed += $2 }
    END { printf "%d passed, %d failed\n", passed, failed + broken; exit failed + broken > 0 }' "$RESULTS"
