#!/bin/sh
#
# openapi.sh - `redocly lint` for the contract; warnings count. Debian has no package of it, so
# this runs only where redocly is installed: npm install --global @redocly/cli.
set -eu
cd "$(dirname "$0")/.."

command -v redocly >/dev/null || {
    echo "not run: redocly lint (redocly is not installed)"
    exit 0
}
output=$(redocly lint app/api/openapi.yaml 2>&1) || {
    echo "$output"
    exit 1
}
echo "$output"
! echo "$output" | grep -qi 'warning'
