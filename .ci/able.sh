# shellcheck shell=sh disable=SC2034,SC2154
#
# able.sh - check that this machine has what a test needs: root, a Debian mirror, packages.
# Otherwise print why the test is not run, and exit with success. A test sets $what to its name
# and sources this file. No check waits longer than some minutes.

mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

not_run()
{
    echo "not run: $what ($*)"
    exit 0
}

need_root()
{
    [ "$(id -u)" -eq 0 ] || not_run "needs root"
}

# need_mirror SUITE: check the mirror by a download of a list of packages, 8 MB, within half a
# minute. The tests download thirty times as much, in roots and containers that have no proxy.
need_mirror()
{
    why=$(curl --noproxy '*' -fsSL -m 30 -o /dev/null \
        "$mirror/dists/$1/main/binary-$(dpkg --print-architecture)/Packages.xz" 2>&1) ||
        not_run "no $1 from $mirror: $why"
}

# need_packages LIST PROGRAM...: install the packages of LIST if a PROGRAM is missing.
need_packages()
{
    list=$1
    shift
    # shellcheck disable=SC2068
    why=$(has_all $@ || timeout 300 .ci/deps.sh "$list" 2>&1 >/dev/null) ||
        not_run "$list cannot be installed: $(echo "$why" | tail -n 1)"
    has_all "$@" || not_run "no $1"
}

has_all()
{
    for program; do
        command -v "$program" >/dev/null || return 1
    done
}

# need_tar SUITE: set $tar to a tar file with a minimal Debian.
need_tar()
{
    need_mirror "$1"
    need_packages .ci/packages-root debootstrap
    why=$(try_devices 2>&1) || not_run "cannot make a root directory: $(echo "$why" | tail -n 1)"
    tar=$(timeout 600 .ci/root.sh "$1") || {
        [ $? -eq 124 ] && not_run "debootstrap took more than ten minutes"
        exit 1
    }
}

# Try to make a device, to mount and to change the root, in a mount namespace of its own.
try_devices()
{
    mkdir -p var
    probe=$(mktemp -d var/probe.XXXXXX)
    able=yes
    { mknod -m 666 "$probe/null" c 1 3 && true >"$probe/null" &&
        unshare -m mount -t proc proc "$probe" && chroot / true; } || able=
    rm -rf "$probe"
    [ -n "$able" ]
}
