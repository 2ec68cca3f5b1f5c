#!/bin/sh
#
# postgres.sh postgres [ARGUMENT...] - the entry point of the image, compatible with the official
# one as far as the demo needs it: create the data, run the scripts in /docker-entrypoint-initdb.d
# with a server that listens on no port, then start the server.
set -eu

data=/var/lib/postgresql/data
bin=$(echo /usr/lib/postgresql/*/bin)
PATH=$bin:$PATH

if [ "$(id -u)" -eq 0 ]; then
    chown postgres: "$data" /var/run/postgresql
    exec setpriv --reuid=postgres --regid=postgres --init-groups -- "$0" "$@"
fi
if [ ! -s "$data/PG_VERSION" ]; then
    chmod 700 "$data"
    initdb -D "$data" -U postgres -E UTF8 --locale=C.UTF-8 --auth-local=trust \
        --auth-host=scram-sha-256 >/dev/null
    echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
    pg_ctl -D "$data" -s -w -o "-c listen_addresses=''" start
    for script in /docker-entrypoint-initdb.d/*.sh; do
        sh "$script"
    done
    pg_ctl -D "$data" -s -w -m fast stop
fi
exec "$@" -D "$data" -c listen_addresses='*'
