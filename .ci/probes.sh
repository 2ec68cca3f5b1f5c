#!/bin/sh
#
# probes.sh PROGRAM - check that PROGRAM has the probes that app/core/probes.h lists, and that
# seckill.bt uses no others. If bpftrace can run, also check the syntax of seckill.bt.
set -eu
program=$1

gcc -E -include sys/sdt.h -x c /dev/null >/dev/null 2>&1 || {
    echo "not run: probes (no sys/sdt.h; Debian: systemtap-sdt-dev)"
    exit 0
}
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
readelf -n "$program" | awk '$1 == "Provider:" { ours = $2 == "seckill" } $1 == "Name:" && ours { print $2 }' |
    sort -u >"$files/built"
sed -n '/^#ifndef/q; s/^ \*  /\n/p' app/core/probes.h | grep -o '[a-z]*_[a-z]*(\|stage(' | tr -d '(' | sort -u >"$files/listed"
diff "$files/listed" "$files/built"
# shellcheck disable=SC2016 # a regular expression
sed -n 's/^usdt:$1:seckill:\([a-z_]*\).*/\1/p' app/install/seckill.bt | sort -u >"$files/used"
[ -s "$files/used" ]
[ -z "$(comm -23 "$files/used" "$files/built")" ] || {
    echo "probes.sh: seckill.bt uses probes that do not exist: $(comm -23 "$files/used" "$files/built")" >&2
    exit 1
}
if bpftrace -d -e 'BEGIN { exit(); }' >/dev/null 2>&1; then
    bpftrace -d app/install/seckill.bt "$program" >"$files/tree" 2>&1 || {
        grep -v -e '^AST' -e '^ *$' "$files/tree" >&2
        exit 1
    }
fi
