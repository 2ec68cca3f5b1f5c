#!/bin/sh
#
# deps.sh [--dry] [LIST] - install the missing packages of .ci/packages, or of LIST, as root or
# with sudo. --dry: only print what would be done. OS_RELEASE in the environment replaces
# /etc/os-release in a test.
#
# The project uses only private servers. So this script starts no PostgreSQL, Patroni, PgBouncer, Redis,
# nginx, HAProxy, Prometheus or Docker of the system, now or at boot, and does not change one that is
# already installed. It removes no package, for example no Docker that is not from Debian.
set -eu
cd "$(dirname "$0")/.."
dry=
if [ "${1:-}" = --dry ]; then
    dry=yes
    shift
fi
list=${1:-.ci/packages}

policy=/usr/sbin/policy-rc.d
cluster_policy=/etc/postgresql-common/createcluster.d/zz-seckill.conf

is_installed()
{
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

list_missing()
{
    # shellcheck source=/dev/null
    system=$(. "${OS_RELEASE:-/etc/os-release}" && echo "$ID")
    sed 's/#.*//' "$list" | while read -r package only; do
        [ -z "$package" ] || [ "${only:-$system}" != "$system" ] || is_installed "$package" ||
            printf ' %s' "$package"
    done
}

# Keep packages from starting their servers during the installation. An existing policy is kept.
forbid_starts()
{
    trap allow_starts EXIT
    trap 'exit 1' HUP INT TERM
    if [ ! -e "$policy" ]; then
        cat >"$policy" <<'END'
#!/bin/sh
# Written by seckill's .ci/deps.sh for the time of an installation.
case $1 in postgresql* | patroni* | pgbouncer* | redis* | nginx* | haproxy* | prometheus* | docker* | containerd*) exit 101 ;; esac
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

# The services of these packages that would start at boot.
list_services()
{
    for service in patroni pgbouncer redis-server nginx haproxy prometheus docker; do
        case " $1 " in
        *" $service "* | *" $service.io "*) echo "$service" ;;
        esac
    done
}

disable_at_boot()
{
    for service in $(list_services "$1"); do
        update-rc.d "$service" disable >/dev/null ||
            echo "deps.sh: $service could not be kept from starting at boot" >&2
    done
}

missing=$(list_missing)
if [ -z "$missing" ]; then
    [ -z "$dry" ] || echo "no package is missing"
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "deps.sh: this is not Debian; install the equivalents of:$missing" >&2
    exit 1
fi
if [ -n "$dry" ]; then
    sudo=$([ "$(id -u)" -eq 0 ] || echo "sudo ")
    echo "would run: ${sudo}apt-get update"
    echo "would run: ${sudo}apt-get install --no-remove --no-install-recommends$missing"
    [ -z "$(list_services "$missing")" ] || echo "no server of these packages would start, now or at boot"
    exit 0
fi
[ -n "${SUDO_UID:-}" ] || echo "missing Debian packages:$missing"
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "deps.sh: needs root or sudo for: apt-get install$missing" >&2
        exit 1
    fi
    exec sudo "$0" "$list"
fi
exec 9>/run/lock/seckill-deps
flock 9 # one installation at a time, because each removes the policy at its end
forbid_starts
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-remove -o Dpkg::Use-Pty=0 --no-install-recommends $missing >&2
disable_at_boot "$missing"
