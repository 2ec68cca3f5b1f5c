#!/bin/sh
#
# install.sh BUILD CC - install below BUILD/root, and take the lock library from there as
# another program would: by pkg-config and its headers alone.
set -eu
build=$1
cc=$2
root=$PWD/$build/root

rm -rf "$root"
make --no-print-directory -s BUILD="$build" DESTDIR="$root" PREFIX=/usr install
"$root/usr/bin/seckill" version

export PKG_CONFIG_PATH="$root/usr/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root"
for source in lib/examples/*.c; do
    # shellcheck disable=SC2046 # many words are meant
    "$cc" -Wall -Wextra -Werror "$source" -o "$root/example" $(pkg-config --cflags --libs rlock)
    echo "built $source"
done
