#!/bin/sh
#
# reuse.sh - `reuse lint` for the tracked files. Versions before 4, such as that of Debian 12,
# do not read REUSE.toml: they get its annotations as .reuse/dep5, in a copy.
set -eu
cd "$(dirname "$0")/.."

version=$(reuse --version | sed -n '1s/[^0-9]*\([0-9]*\).*/\1/p')
[ "$version" -lt 4 ] || exec reuse lint

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z | tar --null -T - -cf - | tar -C "$copy" -xf -
rm "$copy/REUSE.toml"
mkdir "$copy/.reuse"
awk -F ' *= *' '
    BEGIN { print "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/" }
    { gsub(/"/, "", $2); sub(/\*\*/, "*", $2) }
    $1 == "path" { print "\nFiles: " $2 }
    $1 == "SPDX-FileCopyrightText" { print "Copyright: " $2 }
    $1 == "SPDX-License-Identifier" { print "License: " $2 }' REUSE.toml >"$copy/.reuse/dep5"
reuse --root "$copy" lint
