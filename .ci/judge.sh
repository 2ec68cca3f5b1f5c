#!/bin/sh
#
# judge.sh BUILD - build BUILD/judge, the second checker of the proof, which needs Go and the module
# that load/judge/go.mod names.
set -eu
cd "$(dirname "$0")/.."
# shellcheck disable=SC2034 # able.sh uses it
what="judge of the load proof"
# shellcheck source=.ci/able.sh
. .ci/able.sh

rm -f "$1/judge"
command -v go >/dev/null || not_run "Go is not installed"
output=$(realpath "$1")/judge
cd load/judge
why=$(timeout 60 go mod download 2>&1) ||
    not_run "porcupine cannot be downloaded: $(echo "$why" | tail -n 1)"
unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || {
    echo "gofmt would change: $unformatted"
    exit 1
}
go vet .
go build -buildvcs=false -o "$output" .
