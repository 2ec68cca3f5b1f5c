#!/bin/sh
#
# install.sh BUILD CC... - install into BUILD/root, and build the examples with the lock library
# from there as another program would: with pkg-config and the installed headers.
set -eu
build=$1
shift
root=$PWD/$build/root

rm -rf "$root"
make --no-print-directory -s BUILD="$build" DESTDIR="$root" PREFIX=/usr install
"$root/usr/bin/seckill" version

export PKG_CONFIG_PATH="$root/usr/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root"
for source in lib/examples/*.c; do
    # shellcheck disable=SC2046 # one word per option
    "$@" -Wall -Wextra -Werror "$source" -o "$root/example" $(pkg-config --cflags --libs rlock)
    echo "built $source"
done
