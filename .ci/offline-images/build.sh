#!/bin/sh
#
# build.sh BASE FILE - stand-ins for the images of the demo, where no registry can be reached:
# of Debian packages on the image BASE, by a running Docker. The settings for compose.yaml
# that name them go to FILE.
set -eu
base=$1
file=$2
context=$(dirname "$0")

# The classic builder because it is in every Docker, and takes a base that no registry knows.
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
