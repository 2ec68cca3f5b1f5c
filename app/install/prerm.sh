#!/bin/sh
set -eu
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now seckill.service seckill-deliver.service
fi
