#!/bin/sh
#
# postgres-roles.sh - run once by the Postgres image over the fresh data: who owns the
# tables, and who serves. The owner, as a member of the other role, sees its sessions.
set -eu
psql -XAtq -v ON_ERROR_STOP=1 -v password="$POSTGRES_PASSWORD" -U postgres <<'END'
create role seckill login password :'password';
create role seckill_service login password :'password' role seckill;
create database seckill owner seckill;
END
