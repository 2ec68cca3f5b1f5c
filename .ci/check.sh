#!/bin/sh
#
# check.sh [--if-failed] [--advice] [--show] NAME COMMAND... - run one check and print one line
# about it, and its whole output when it failed. "PASSED FAILED" of it go as a line to the
# file $RESULTS; a test program counts with each of its cases, anything else as one. A case
# that was skipped counts as failed: what cannot run must say so. A check that cannot be made
# on this machine at all prints "not run: WHAT (WHY)" and succeeds; that is told and does not
# count. With --if-failed a check that passed is silent and does not count. With --advice a
# failure is told and does not count. With --show the last line of the output stands in the
# place of the name.
set -u

only_failed=
advice=
show=
while :; do
    case $1 in
    --if-failed) only_failed=yes ;;
    --advice) advice=yes ;;
    --show) show=yes ;;
    *) break ;;
    esac
    shift
done
name=$1
shift

output=$(mktemp)
trap 'rm -f "$output"' EXIT
began=$(date +%s%N)
"$@" >"$output" 2>&1 </dev/null
code=$?
took=$((($(date +%s%N) - began) / 100000000))

if [ "$code" -eq 0 ] && grep '^not run: ' "$output"; then
    exit 0
fi
if [ "$code" -eq 77 ]; then
    echo "NOT RUN $name: $(tail -n 1 "$output")"
    exit 0
fi

ran=$(grep -c '^\[ RUN ' "$output")
passed=$(grep -c '^\[       OK \]' "$output")
if [ "$ran" -eq 0 ]; then
    # Not a test program, or one that ended before its first case.
    ran=1
    passed=$((code == 0 ? 1 : 0))
    case ${1##*/} in
    test_* | it_*) passed=0 ;;
    esac
elif [ "$code" -ne 0 ] && [ "$passed" -eq "$ran" ]; then
    passed=$((ran - 1)) # it failed outside of its cases
fi
failed=$((ran - passed))

[ -z "$show" ] || name=$(tail -n 1 "$output")
if [ "$failed" -eq 0 ]; then
    [ -z "$only_failed" ] || exit 0
    printf 'ok      %-48s %4d  %4d.%d s\n' "$name" "$passed" $((took / 10)) $((took % 10))
elif [ -n "$advice" ]; then
    echo "advice  $name has findings here, which do not count; JUDGES=yes shows them"
    exit 0
else
    # One write, so that checks side by side do not mix.
    text=$(grep -v -e '^\[ RUN ' -e '^\[       OK \]' "$output")
    printf '%s\nFAILED  %s: %d of %d, exit code %d\n' "$text" "$name" "$failed" "$ran" "$code"
fi
echo "$passed $failed" >>"$RESULTS"
[ "$failed" -eq 0 ]
