#!/bin/sh
set -eu
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
