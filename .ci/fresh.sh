# shellcheck shell=sh disable=SC2031,SC2154
#
# fresh.sh - a fresh Debian of this machine's release, to install the package in. To be
# sourced, with $what naming the test; it is in a directory below var, which is removed at the
# end of the script.

# shellcheck source=.ci/able.sh
. .ci/able.sh

root=

fail()
{
    echo "$what: $*" >&2
    exit 1
}

# make_root BUILD: $root, with the package of BUILD in it as $root/seckill.deb.
make_root()
{
    need_root
    # shellcheck disable=SC1091
    need_tar "$(. /etc/os-release && echo "$VERSION_CODENAME")"
    package=$(app/install/package.sh "$1" "$(cat VERSION)")
    root=$(mktemp -d "$PWD/var/fresh.XXXXXX")
    chmod 755 "$root"
    tar -C "$root" -xf "$tar"
    mkdir -p "$root/var/cache/apt/archives/partial" "$root/var/lib/apt/lists/partial" "$root/var/log/apt"
    cp /etc/resolv.conf "$root/etc/"
    [ -e "$root/dev/null" ] || mknod -m 666 "$root/dev/null" c 1 3
    [ -e "$root/dev/urandom" ] || mknod -m 444 "$root/dev/urandom" c 1 9
    cp "$package" "$root/seckill.deb"
}

remove_root()
{
    [ -z "$root" ] || rm -rf "$root"
}

inside()
{
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}

apt()
{
    inside timeout 300 apt-get -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "$@" >"$root/apt.log" 2>&1 || {
        tail -n 20 "$root/apt.log" >&2
        fail "apt-get $1"
    }
}

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for()
{
    deadline=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt "$deadline" ] || return 1
        sleep 0.1
    done
}

# status URL: of the answer to a GET.
status()
{
    curl -s -o /dev/null -m 10 -w '%{http_code}' "$1"
}
