#!/bin/sh
#
# dry.sh - check that `make deps DRY=1` prints what it would do on Debian 12 and 13 and Ubuntu 24.04,
# and does nothing. It runs in a copy of the files that it reads, with a fake dpkg, apt and sudo.
set -eu
cd "$(dirname "$0")/.."

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/tree" "$place/bin"
cp -R --parents Makefile VERSION lib/VERSION lib/library.mk .ci "$place/tree"
PATH=$place/bin:$PATH
unset MAKEFLAGS MAKELEVEL # this make must not be silent or parallel as the outer make may be

fail()
{
    echo "dry.sh: $*" >&2
    exit 1
}

# fake PROGRAM LINE: a program that runs this line of shell.
fake()
{
    printf '#!/bin/sh\n%s\n' "$2" >"$place/bin/$1"
    chmod 755 "$place/bin/$1"
}

# dry_run ID VERSION_ID: print what `make deps DRY=1` prints on this system.
dry_run()
{
    printf 'ID=%s\nVERSION_ID="%s"\n' "$@" >"$place/os-release"
    OS_RELEASE=$place/os-release make --no-print-directory -C "$place/tree" deps DRY=1
}

check()
{
    [ "$2" = "$3" ] || fail "$1: \"$2\", expected \"$3\""
}

# packages ID: print all packages, except those that only another system has.
packages()
{
    sed 's/#.*//' .ci/packages | awk -v own="$1" 'NF > 0 && (NF == 1 || $2 == own) { printf " %s", $1 }'
}

# shellcheck disable=SC2016 # the fakes expand the variables
{
    fake dpkg-query 'for package; do :; done; grep -qx "$package" "'"$place"'/installed" && echo installed'
    for program in apt-get sudo update-rc.d; do
        fake "$program" 'echo "$0 $*" >>"'"$place"'/called"'
    done
}
fake id 'echo 1000'
touch "$place/copied"

: >"$place/installed"
for system in "debian 12" "debian 13" "ubuntu 24.04"; do
    # shellcheck disable=SC2086 # two words
    check "new $system" "$(dry_run $system)" "would run: sudo apt-get update
would run: sudo apt-get install --no-remove --no-install-recommends$(packages "${system% *}")
no server of these packages would start, now or at boot"
done
check "packages that differ" "$(sed 's/#.*//' .ci/packages | awk 'NF > 1')" "chromium debian
chromium-driver debian"

fake id 'echo 0'
packages debian | tr ' ' '\n' | grep -v -x -e gcc -e jq >"$place/installed"
check "two packages are missing" "$(dry_run debian 13)" "would run: apt-get update
would run: apt-get install --no-remove --no-install-recommends gcc jq"
packages debian | tr ' ' '\n' >"$place/installed"
check "none is missing" "$(dry_run debian 13)" "no package is missing"

[ ! -e "$place/called" ] || fail "it ran $(cat "$place/called")"
check "new files" "$(find "$place/tree" -newer "$place/copied")" ""
