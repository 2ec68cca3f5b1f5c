#!/bin/sh
#
# build.sh DIR - build the Redisson peer: DIR/redisson/peer.jar, with its dependencies in
# DIR/redisson/lib; Maven keeps its downloads in DIR/m2. Exit codes: 0 built or up to date,
# 1 failed, 3 not possible on this machine, with the reason on standard output.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
built=$dir/redisson/built
log=$dir/redisson.log
FETCH_WITHIN_S=240

cannot()
{
    echo "$*"
    exit 3
}

command -v java >/dev/null || cannot "no java"
[ -z "$(find "$here" -newer "$built" -type f 2>&1)" ] && exit 0
command -v javac >/dev/null || cannot "no javac"
command -v mvn >/dev/null || cannot "no mvn"

code=0
timeout "$FETCH_WITHIN_S" mvn -B -U -f "$here/pom.xml" -Dmaven.repo.local="$dir/m2" \
    -Doutput="$dir/redisson" package >"$log" 2>&1 || code=$?
if [ "$code" -ne 0 ]; then
    [ "$code" -ne 124 ] || cannot "Maven Central is too slow"
    ! grep -q -e 'Could not transfer' -e 'failed to transfer' "$log" || cannot "no Maven Central"
    grep '^\[ERROR\]' "$log" >&2
    exit 1
fi
touch "$built"
