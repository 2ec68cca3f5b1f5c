#!/bin/sh
#
# root.sh SUITE - print the path of a tar file with a minimal Debian. It is made once, with
# debootstrap as root, and kept in var/roots.
set -eu
cd "$(dirname "$0")/.."

suite=$1
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
tar=$PWD/var/roots/$suite.tar

if [ ! -e "$tar" ]; then
    mkdir -p var/roots
    place=$(mktemp -d var/roots/new.XXXXXX)
    trap 'rm -rf "$place"' EXIT
    trap 'exit 1' HUP INT TERM
    chmod 755 "$place"
    debootstrap --variant=minbase --include=ca-certificates "$suite" "$place/root" "$mirror" \
        >"$place/log" 2>&1 || {
        tail -n 5 "$place/log" >&2
        exit 1
    }
    # Like Debian's slim images, it has no manuals and translations, also of packages that are
    # installed later.
    cat >"$place/root/etc/dpkg/dpkg.cfg.d/slim" <<'END'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-include /usr/share/doc/seckill/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/man/*
path-include /usr/share/man/man*/seckill*
path-exclude /usr/share/info/*
END
    tar -C "$place/root" -cf "$place/tar" --numeric-owner --exclude './usr/share/man/*' \
        --exclude './usr/share/locale/*' --exclude './usr/share/info/*' \
        --exclude './var/cache/apt/*' --exclude './var/lib/apt/lists/*' --exclude './var/log/*' \
        --exclude './proc/*' --exclude './sys/*' --exclude './dev/*' .
    mv "$place/tar" "$tar"
fi
echo "$tar"
