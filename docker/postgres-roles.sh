#!/bin/sh
#
# postgres-roles.sh [URL] - run once by the Postgres image, or by Patroni with a URL, on new data:
# creates the owner of the tables and the role of the service. The owner is a member of that role and
# so sees its sessions.
set -eu
psql -XAtq -v ON_ERROR_STOP=1 -v owner="$OWNER_PASSWORD" -v service="$SERVICE_PASSWORD" -U postgres ${1:+-d "$1"} <<'END'
create role seckill login password :'owner';
create role seckill_service login password :'service' role seckill;
create database seckill owner seckill;
END
