#!/bin/sh
#
# check.sh [--if-failed] [--advice] [--show] NAME COMMAND... - run one check and print its
# result in one line, preceded by its output if it failed.
#
# A check appends "PASSED FAILED NAME" to the file $RESULTS. Each case of a test program
# counts; any other command counts as one. A skipped case counts as failed. A check also
# fails if a process that it started is alive at its end.
#
# A check that cannot run on this machine prints "not run: WHAT (WHY)", or ends with exit
# code 77 and the reason in its last line. Then it is neither passed nor failed.
#
#   --if-failed  if the check passes, print and count nothing
#   --advice     print a failure, but do not count it
#   --show       if the check passes, print the last line of the output instead of NAME
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
program=${1##*/}
[ -n "$only_failed" ] || set -- "${0%/*}/reap.py" "$@"

output=$(mktemp)
trap 'rm -f "$output"' EXIT
start=$(date +%s%N)
"$@" >"$output" 2>&1 </dev/null
code=$?
tenths=$((($(date +%s%N) - start) / 100000000))

if [ "$code" -eq 0 ] && grep '^not run: ' "$output"; then
    exit 0
fi
if [ "$code" -eq 77 ]; then
    echo "not run: $name ($(tail -n 1 "$output"))"
    exit 0
fi

ran=$(grep -c '^\[ RUN ' "$output")
passed=$(grep -c '^\[       OK \]' "$output")
if [ "$ran" -eq 0 ]; then
    # Not a test program, or one that ended before its first case.
    ran=1
    passed=$((code == 0 ? 1 : 0))
    case $program in
    test_* | it_*) passed=0 ;;
    esac
elif [ "$code" -ne 0 ] && [ "$passed" -eq "$ran" ]; then
    passed=$((ran - 1)) # the program failed, but none of its cases
fi
failed=$((ran - passed))

if [ "$failed" -eq 0 ]; then
    [ -z "$show" ] || name=$(tail -n 1 "$output")
    [ -z "$only_failed" ] || exit 0
    printf 'ok      %-52s %4d  %4d.%d s\n' "$name" "$passed" $((tenths / 10)) $((tenths % 10))
elif [ -n "$advice" ]; then
    echo "advice  $name has findings with this version of the tool; JUDGES=yes prints them"
    exit 0
else
    # There is only one write, so that the output of parallel checks does not mix.
    text=$(grep -v -e '^\[ RUN ' -e '^\[       OK \]' "$output")
    printf '%s\nFAILED  %s: %d of %d, exit code %d\n' "$text" "$name" "$failed" "$ran" "$code"
fi
echo "$passed $failed $name" >>"$RESULTS"
[ "$failed" -eq 0 ]
