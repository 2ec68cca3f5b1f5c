#!/bin/sh
#
# linked.sh PROGRAM [--all] - the Debian packages of the libraries that PROGRAM is linked
# with, a line each: package, version, architecture, library. With --all also those that
# the libraries themselves need.
set -eu

needed=$(objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }')
ldd "$1" | while read -r name arrow path _; do
    [ "$arrow" = '=>' ] || continue
    [ "${2:-}" = --all ] || echo "$needed" | grep -qxF "$name" || continue
    # dpkg knows a file by the name it was packed with, before or after /lib became a link.
    real=$(readlink -f "$path")
    package=$(dpkg -S "$real" "${real#/usr}" "/usr$path" "$path" 2>/dev/null | head -n 1)
    package=${package%: *}
    [ -n "$package" ] || {
        echo "linked.sh: no package owns $path" >&2
        exit 1
    }
    # shellcheck disable=SC2016 # dpkg-query's own variables
    dpkg-query -W -f '${Package} ${Version} ${Architecture}' "$package"
    echo " $name"
done
