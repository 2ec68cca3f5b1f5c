#!/bin/sh
#
# deps.sh [LIST] - install the packages of .ci/packages, or of LIST, that are missing. As
# root, or by sudo.
#
# What is installed here is for private servers only: no system-wide PostgreSQL, Redis,
# nginx or Docker is started or set to start by it, and one that was there before is not
# touched: nothing is removed, such as a Docker that is not Debian's.
set -eu
cd "$(dirname "$0")/.."
list=${1:-.ci/packages}

policy=/usr/sbin/policy-rc.d
cluster_policy=/etc/postgresql-common/createcluster.d/zz-seckill.conf

is_installed()
{
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

list_missing()
{
    sed 's/#.*//' "$list" | while read -r package; do
        [ -z "$package" ] || is_installed "$package" || printf ' %s' "$package"
    done
}

# Let no package start a server while this runs. An owner's own policy stays in force.
forbid_starts()
{
    trap allow_starts EXIT
    trap 'exit 1' HUP INT TERM
    if [ ! -e "$policy" ]; then
        cat >"$policy" <<'END'
#!/bin/sh
# For the time of an installation by seckill's .ci/deps.sh.
case $1 in postgresql* | redis* | nginx* | docker* | containerd*) exit 101 ;; esac
END
        chmod 755 "$policy"
    fi
    mkdir -p "${cluster_policy%/*}"
    echo 'create_main_cluster = false' >"$cluster_policy"
}

allow_starts()
{
    rm -f "$cluster_policy"
    if grep -qs "seckill's .ci/deps.sh" "$policy"; then
        rm -f "$policy"
    fi
}

# Packages set their servers to start at the next boot, too.
disable_at_boot()
{
    for service in redis-server nginx docker; do
        case " $1 " in
        *" $service "* | *" $service.io "*) update-rc.d "$service" disable >/dev/null ||
            echo "deps.sh: $service could not be kept from starting at boot" >&2 ;;
        esac
    done
}

missing=$(list_missing)
[ -n "$missing" ] || exit 0
[ -n "${SUDO_UID:-}" ] || echo "missing Debian packages:$missing"
if ! command -v apt-get >/dev/null; then
    echo "deps.sh: this is no Debian; install what these packages hold" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "deps.sh: needs root or sudo for: apt-get install$missing" >&2
        exit 1
    fi
    exec sudo "$0" "$list"
fi
forbid_starts
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-remove -o Dpkg::Use-Pty=0 --no-install-recommends $missing >&2
disable_at_boot "$missing"
