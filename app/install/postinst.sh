#!/bin/sh
#
# postinst - does not enable or start the service, because its settings are missing. Restarts a
# running service with the new program.
set -eu
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if [ "$1" = configure ] && [ -n "${2:-}" ]; then
    systemctl try-restart seckill.service
fi
