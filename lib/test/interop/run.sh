#!/bin/sh
#
# run.sh BUILD PROGRAM - run the interop test as a check, or print one line with the reason
# why it cannot run, which counts neither as passed nor as failed.
set -u
here=$(dirname "$0")

code=0
why=$("$here/build.sh" "$1" 2>/dev/null) || code=$?
case $code in
0) exec .ci/check.sh "$2" "$2" "$1/redisson/peer.jar:$1/redisson/lib/*" ;;
3) echo "not run: interop ($why)" ;;
*) exec .ci/check.sh "$here/build.sh" "$here/build.sh" "$1" ;;
esac
