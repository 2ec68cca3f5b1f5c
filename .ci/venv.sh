#!/bin/sh
#
# venv.sh PLACE PACKAGE VERSION [REQUIREMENT...] - install this version of a package from PyPI, and
# the other requirements, in the virtual environment PLACE, unless they are installed. Exit code
# 77: pip has failed; the last line says why.
set -eu
cd "$(dirname "$0")/.."

place=$1
shift
made=$place/$(echo "$*" | tr ' ' ,)
[ ! -e "$made" ] || exit 0
rm -rf "$place"
package=$1==$2
shift 2
why=$({ python3 -m venv "$place" && timeout 300 "$place/bin/pip" install --quiet "$package" "$@"; } 2>&1) || {
    echo "pip cannot install $package $*: $(echo "$why" | tail -n 1)"
    exit 77
}
touch "$made"
