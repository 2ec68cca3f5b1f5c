#!/bin/sh
#
# library-package.sh BUILD - check the Debian packages of the lock library: lintian, the same bytes
# from two directories, and a program that is compiled with what they contain.
set -eu
build=$1
unset MAKEFLAGS MAKELEVEL BUILD RESULTS
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
trap 'exit 1' HUP INT TERM

lib/dist/package.sh "$build" >"$place/packages"
lib/dist/package.sh "$place" nocheck >/dev/null
# Two findings are allowed: the maintainer has no address of mail, as in the package of the service.
# shellcheck disable=SC2046
lintian --fail-on error,warning,info --display-info --allow-root \
    --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog $(cat "$place/packages")
while read -r package; do
    cmp "$package" "$place/${package##*/}"
    dpkg-deb -x "$package" "$place/root"
done <"$place/packages"

folder=$place/root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
gzip -dc "$place/root/usr/share/man/man3/rlock_sync.3.gz" | awk -f lib/man/example.awk >"$place/page.c"
export PKG_CONFIG_PATH="$folder/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$place/root"
# shellcheck disable=SC2046 # one word per option
cc -Wall -Wextra -Werror "$place/page.c" -o "$place/page" $(pkg-config --cflags --libs rlock)
LD_LIBRARY_PATH=$folder "$place/page" unix:/nowhere 2>&1 | grep 'No such file or directory'
