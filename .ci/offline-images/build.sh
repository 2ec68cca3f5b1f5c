#!/bin/sh
#
# build.sh BASE FILE - build the images of the demo from Debian packages on the image BASE, for
# machines without access to a registry. Writes their names to FILE, as settings of compose.yaml.
set -eu
base=$1
file=$2
context=$(dirname "$0")

# The classic builder is part of every Docker and accepts a base image without a registry.
build()
{
    DOCKER_BUILDKIT=0 docker build --force-rm --network host --build-arg BASE="$base" --target "$1" \
        -t "seckill-offline/$1" "$context"
}

printf 'BASE_IMAGE=%s\nBUILD_NETWORK=host\n' "$base" >"$file"
for server in postgres redis nginx prometheus; do
    build "$server"
    echo "$(echo "$server" | tr '[:lower:]' '[:upper:]')_IMAGE=seckill-offline/$server" >>"$file"
done
