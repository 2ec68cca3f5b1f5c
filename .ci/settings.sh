#!/bin/sh
#
# settings.sh PROGRAM [--write] - compare the table of settings in the operator guide with the
# one that PROGRAM prints, or with --write replace it.
set -eu
cd "$(dirname "$0")/.."
document=app/docs/operator.md

fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
"$1" serve --help | awk '
    BEGIN { table = "| variable | default | allowed | meaning |\n|---|---|---|---|\n" }
    FNR == NR && /^  SECKILL_/ {
        fallback = match($0, / \([^)]*\)/) ? "`" substr($0, RSTART + 2, RLENGTH - 3) "`" : ""
        allowed = match($0, /\[.*\]$/) ? substr($0, RSTART + 1, RLENGTH - 2) : ""
        getline meaning
        sub(/^ */, "", meaning)
        table = table "| `" $1 "` | " fallback " | " allowed " | " meaning " |\n"
    }
    FNR == NR { next }
    /^<!-- configuration/ { print; printf "\n%s\n", table; inside = 1; next }
    /^<!-- end of configuration/ { inside = 0 }
    !inside' - "$document" >"$fresh"
if [ "${2:-}" = --write ]; then
    cat "$fresh" >"$document"
else
    diff -u "$document" "$fresh"
fi
