#!/bin/sh
#
# linked.sh PROGRAM [--all] - lists the Debian packages of the libraries that PROGRAM is linked
# with, one per line: package, version, architecture, library. --all also lists the libraries
# that those need.
set -eu

needed=$(objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }')
ldd "$1" | while read -r name arrow path _; do
    [ "$arrow" = '=>' ] || continue
    [ "${2:-}" = --all ] || echo "$needed" | grep -qxF "$name" || continue
    # dpkg knows a file by its name in the package, below /lib or /usr/lib.
    real=$(readlink -f "$path")
    package=$(dpkg -S "$real" "${real#/usr}" "/usr$path" "$path" 2>/dev/null | head -n 1)
    package=${package%: *}
    [ -n "$package" ] || {
        echo "linked.sh: no package owns $path" >&2
        exit 1
    }
    # shellcheck disable=SC2016 # variables of dpkg-query
    dpkg-query -W -f '${Package} ${Version} ${Architecture}' "$package"
    echo " $name"
done
