#!/bin/sh
#
# venv.sh PLACE PACKAGE VERSION - install this version of a package from PyPI in the virtual
# environment PLACE, unless it is there. Exit code 77: pip cannot; the last line says why.
set -eu
cd "$(dirname "$0")/.."

[ ! -e "$1/$3" ] || exit 0
rm -rf "$1"
why=$({ python3 -m venv "$1" && timeout 300 "$1/bin/pip" install --quiet "$2==$3"; } 2>&1) || {
    echo "pip cannot install $2: $(echo "$why" | tail -n 1)"
    exit 77
}
touch "$1/$3"
