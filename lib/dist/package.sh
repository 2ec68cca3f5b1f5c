#!/bin/sh
#
# package.sh BUILD [OPTIONS] - makes the Debian packages librlock1 and librlock-dev from the source
# archive, for this machine's release, and prints their paths. OPTIONS are DEB_BUILD_OPTIONS.
set -eu
build=$1
archive=$(lib/dist/archive.sh "$build")
place=$build/package-library

rm -rf "$place"
mkdir -p "$place"
tar -C "$place" -xf "$archive"
if ! (cd "$place"/librlock-* && DEB_BUILD_OPTIONS="parallel=$(nproc) noautodbgsym ${2-}" \
    env -u MAKEFLAGS -u MAKELEVEL -u BUILD dpkg-buildpackage -b -us -uc) >"$place/log" 2>&1; then
    tail -n 50 "$place/log" >&2
    exit 1
fi
mv "$place"/*.deb "$build"
ls "$build"/librlock1_*.deb "$build"/librlock-dev_*.deb
