#!/bin/sh
#
# postinst - the service is neither enabled nor started: it lacks a secret and its servers.
# One that runs goes on with the new program.
set -eu
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if [ "$1" = configure ] && [ -n "${2:-}" ]; then
    systemctl try-restart seckill.service
fi
