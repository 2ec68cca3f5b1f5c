#!/bin/sh
#
# postinst - does not enable or start the units, because their settings are missing. Restarts running
# units with the new program.
set -eu
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if [ "$1" = configure ] && [ -n "${2:-}" ]; then
    systemctl try-restart seckill.service seckill-deliver.service
fi
