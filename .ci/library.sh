#!/bin/sh
#
# library.sh BUILD - check the source archive of the lock library. Two copies of the sources, in
# different directories, make the same bytes. Then do as a stranger does who has nothing but the
# archive: unpack it in an empty directory, build, test, install, and compile the program of a
# manual page with pkg-config. From the archive only the unit tests and two integration tests run;
# other checks run all tests of the library.
set -eu
build=$1
place=$(mktemp -d)
redis=
trap 'rm -rf "$place"' EXIT
trap 'exit 1' HUP INT TERM
unset MAKEFLAGS MAKELEVEL BUILD RESULTS

# archive DIR UMASK TIMEZONE: make the archive in a copy of the sources.
archive()
{
    mkdir -p "$place/$1"
    (
        umask "$2"
        git ls-files lib LICENSE | xargs cp --parents -t "$place/$1"
        cd "$place/$1"
        git init -q
        git add .
        TZ=$3 SOURCE_DATE_EPOCH=1700000000 lib/dist/archive.sh out
    )
}

fail()
{
    echo "library.sh: $*" >&2
    exit 1
}

name=$(basename "$(archive first 022 UTC)")
archive another/place 077 Asia/Shanghai >/dev/null
cmp "$place/first/out/$name" "$place/another/place/out/$name" || fail "two archives differ"
mkdir -p "$build"
cp "$place/first/out/$name" "$build"

mkdir "$place/stranger"
cd "$place/stranger"
tar -xf "$place/first/out/$name"
cd librlock-*
alone()
{
    env -i PATH="$PATH" HOME="$place" nice make -s say= -j"$(nproc)" "$@"
}
alone
alone -n check >/dev/null # each test has its sources
alone -k check-unit build/lib/test/it_tls.check build/lib/test/it_cluster.check
alone DESTDIR="$place/root" PREFIX=/usr install

root=$place/root
export PKG_CONFIG_PATH="$root/usr/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root" LD_LIBRARY_PATH="$root/usr/lib"
[ "$(pkg-config --modversion rlock)" = "$(cat lib/VERSION)" ] || fail "pkg-config: $(pkg-config --modversion rlock)"
cd "$place"
awk -f stranger/librlock-*/lib/man/example.awk "$root/usr/share/man/man7/rlock.7" >page.c
# shellcheck disable=SC2046 # one word per option
cc -Wall -Wextra -Werror page.c -o page $(pkg-config --cflags --libs rlock)
objdump -p page | grep 'NEEDED *librlock.so.1' || fail "page is not linked with librlock.so.1"

redis-server --port 0 --unixsocket "$place/socket" --save '' --logfile "$place/log" &
redis=$!
trap 'kill "$redis"; wait "$redis"; rm -rf "$place"' EXIT
for _ in $(seq 600); do
    [ ! -S "$place/socket" ] || break
    sleep 0.1
done
printed=$(./page "unix:$place/socket")
[ "$printed" = "sold, 9 left" ] || fail "the program of rlock(7) printed: $printed"
