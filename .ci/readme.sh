#!/bin/sh
#
# readme.sh PROGRAM [--write] - is the table of settings in README.md the one that PROGRAM
# prints? With --write it is put there.
set -eu
cd "$(dirname "$0")/.."

fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
"$1" serve --help-markdown | awk '
    FNR == NR { table = table $0 "\n"; next }
    /^<!-- configuration/ { print; printf "\n%s\n", table; inside = 1; next }
    /^<!-- end of configuration/ { inside = 0 }
    !inside' - README.md >"$fresh"
if [ "${2:-}" = --write ]; then
    cat "$fresh" >README.md
else
    diff -u README.md "$fresh"
fi
