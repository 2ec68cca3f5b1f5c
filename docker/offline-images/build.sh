#!/bin/sh
#
# build.sh - stand-ins for the images of the demo, where no registry can be reached: made of
# Debian 13's packages. Needs root, debootstrap and a running Docker. Prints the settings
# for compose.yaml that name them.
set -eu
cd "$(dirname "$0")/../.."

base=seckill-offline/debian:13

# import_base: without what Debian's slim image lacks, too.
import_base()
{
    [ -z "$(docker images -q "$base")" ] || return 0
    root=$(.ci/root.sh trixie)
    docker import "$root" "$base" >/dev/null
}

# A build that fails has said why; of others nobody reads it. The classic builder because it
# is in every Docker, and takes a base that no registry knows.
build()
{
    log=$(mktemp)
    DOCKER_BUILDKIT=0 docker build --network host --build-arg BASE="$base" --target "$1" \
        -t "seckill-offline/$1" docker/offline-images >"$log" 2>&1 || {
        cat "$log" >&2
        rm -f "$log"
        return 1
    }
    rm -f "$log"
}

import_base
echo "BASE_IMAGE=$base"
echo "BUILD_NETWORK=host"
for server in postgres redis nginx prometheus; do
    build "$server"
    echo "$(echo "$server" | tr '[:lower:]' '[:upper:]')_IMAGE=seckill-offline/$server"
done
