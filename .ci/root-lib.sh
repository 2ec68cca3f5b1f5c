# shellcheck shell=sh disable=SC2031,SC2154
#
# root-lib.sh - functions for tests in a new Debian in a directory below var. A test sets $what to
# its name, sources this file, and calls remove_root at its end.

# shellcheck source=.ci/able.sh
. .ci/able.sh

root=

fail()
{
    echo "$what: $*" >&2
    exit 1
}

# make_root SUITE: make a new Debian and set $root to its directory.
make_root()
{
    need_root
    need_tar "$1"
    root=$(mktemp -d "$PWD/var/root.XXXXXX")
    chmod 755 "$root"
    tar -C "$root" -xf "$tar"
    mkdir -p "$root/var/cache/apt/archives/partial" "$root/var/lib/apt/lists/partial" "$root/var/log/apt"
    cp /etc/resolv.conf "$root/etc/"
    printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts" # as the installer writes it
    make_device null 666 1 3
    make_device zero 666 1 5
    make_device random 444 1 8
    make_device urandom 444 1 9
}

# make_device NAME MODE MAJOR MINOR
make_device()
{
    [ -e "$root/dev/$1" ] || mknod -m "$2" "$root/dev/$1" c "$3" "$4"
}

# make_root_with_package BUILD: make a new Debian of this machine's release, with the package of
# BUILD as $root/seckill.deb.
make_root_with_package()
{
    # shellcheck disable=SC1091
    make_root "$(. /etc/os-release && echo "$VERSION_CODENAME")"
    package=$(app/install/package.sh "$1" "$(cat VERSION)")
    cp "$package" "$root/seckill.deb"
}

remove_root()
{
    [ -z "$root" ] || rm -rf "$root"
}

inside()
{
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
        LC_ALL=C.UTF-8 "$@"
}

apt()
{
    inside timeout 600 apt-get -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "$@" >"$root/apt.log" 2>&1 || {
        tail -n 20 "$root/apt.log" >&2
        fail "apt-get $1"
    }
}

# wait_for SECONDS COMMAND...: repeat the command until it succeeds.
wait_for()
{
    deadline=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt "$deadline" ] || return 1
        sleep 0.1
    done
}

# status URL: print the status of the reply to a GET.
status()
{
    curl -s -o /dev/null -m 60 -w '%{http_code}' "$1"
}
