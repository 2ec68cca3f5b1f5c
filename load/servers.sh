#!/bin/bash
#
# servers.sh - a private PostgreSQL and a private Redis, with all they own below one
# directory. `servers.sh help` lists the verbs.
#
# Both listen on loopback only, with passwords of their own, on ports that were free when
# the directory was made and that it keeps. PostgreSQL runs with the durability it ships
# with, since what is measured and tested here is an order that survives a crash. Redis
# keeps nothing on disk: a lock is a lease of seconds, and one that came back from an old
# log after a restart would belong to nobody.
#
# As root the servers run as the users `postgres` and `redis`. They may not be able to
# reach the directory by its path (a checkout below /root, mode 700), so PostgreSQL gets
# its data directory as an open descriptor: /proc/self/fd/8 leads there without a walk
# through the parents. Redis needs no directory.
#
# A process is known by its id and its start time, so that a signal never hits a stranger
# which has inherited the id.
set -euo pipefail
umask 077
export LC_ALL=C

readonly ANSWER_WITHIN_S=60
readonly STOP_WITHIN_S=120

usage()
{
    cat <<'END'
load/servers.sh VERB DIR [postgres|redis]
  up DIR              start both, make DIR and its data at the first time
  down DIR            stop both cleanly; the data stay
  start DIR WHICH     start one, on its old port
  stop DIR WHICH      stop one cleanly
  kill DIR WHICH      SIGKILL all its processes
  pause DIR WHICH     SIGSTOP all its processes
  resume DIR WHICH    SIGCONT them
  env DIR             print DIR/env: URLs, process ids, ports, as shell assignments
Exit codes: 0 done, 1 failed, 2 not understood.
END
}

fail()
{
    echo "servers.sh: $*" >&2
    exit 1
}

# -- processes --

# The state and the start time of a process, if it runs.
process_stat()
{
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # The name in parentheses may hold anything; field 3 follows the last parenthesis.
    # shellcheck disable=SC2086
    set -- ${stat##*) }
    [ "$1" != Z ] || return 1
    echo "${20}"
}

# Print the id of a server's first process; fails when it does not run.
server_pid()
{
    local pid started
    read -r pid started 2>/dev/null <"$dir/$1.pid" || return 1
    [ "$(process_stat "$pid")" = "$started" ] || return 1
    echo "$pid"
}

is_running()
{
    server_pid "$1" >/dev/null
}

# The ids of all PostgreSQL processes that live in the data directory, orphans included. One
# that ends while it is looked at has no program to read any more, and is not listed.
postgres_processes()
{
    local link
    find -L /proc/[0-9]*/cwd -prune -samefile "$dir/postgres" 2>/dev/null | while read -r link; do
        case $(readlink "${link%cwd}exe" || true) in
        */postgres*) link=${link#/proc/} && echo "${link%/cwd}" ;;
        esac
    done
}

no_postgres_processes()
{
    [ -z "$(postgres_processes)" ]
}

# signal_all NAME SIGNAL: all its processes. A stopped parent makes no new ones, so none
# escapes; it wakes last and dies last. Those that have just ended do not matter.
signal_all()
{
    local pid child
    pid=$(server_pid "$1") || return 0
    [ "$2" = CONT ] || kill -STOP "$pid" 2>/dev/null || true
    if [ "$1" = postgres ]; then
        for child in $(postgres_processes); do
            [ "$child" = "$pid" ] || kill "-$2" "$child" 2>/dev/null || true
        done
    fi
    kill "-$2" "$pid" 2>/dev/null || true
}

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for()
{
    local deadline_s=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$deadline_s" ] || return 1
        sleep 0.02
    done
}

is_stopped()
{
    ! is_running "$1"
}

# run_as USER COMMAND...: in place of this shell, as USER where we are root; somewhere
# that USER can be.
run_as()
{
    local user=$1
    shift
    cd /
    [ "$(id -u)" -ne 0 ] || set -- setpriv --reuid="$user" --regid="$user" --init-groups -- "$@"
    exec "$@"
}

# launch NAME USER COMMAND...: in the background, away from the terminal's signals.
# Standard input is passed on.
launch()
{
    local name=$1 user=$2
    shift 2
    # `<&0`: the shell would give a background job /dev/null.
    run_as "$user" setsid "$@" <&0 >>"$dir/$name.log" 2>&1 9>&- &
    echo "$! $(process_stat $!)" >"$dir/$name.pid" || fail "$name ended at once, see $dir/$name.log"
    disown
}

# -- what a directory remembers --

random_hex()
{
    od -An -N16 -tx1 /dev/urandom | tr -d ' \n'
}

# Below 32768 no outgoing connection takes it while the server is stopped.
random_port()
{
    echo $((20000 + (RANDOM * 32768 + RANDOM) % 12000))
}

load_settings()
{
    if [ ! -f "$dir/settings" ]; then
        cat >"$dir/settings.new" <<END
PG_PORT=$(random_port)
PG_PASSWORD=$(random_hex)
REDIS_PORT=$(random_port)
REDIS_PASSWORD=$(random_hex)
END
        mv "$dir/settings.new" "$dir/settings"
    fi
    # shellcheck disable=SC1091
    . "$dir/settings"
}

# change_port NAME: another one for a server that has not run yet.
change_port()
{
    local variable=PG_PORT
    [ "$1" = postgres ] || variable=REDIS_PORT
    sed -i "s/^$variable=.*/$variable=$(random_port)/" "$dir/settings"
    load_settings
}

# A server that does not run has an empty id there.
write_env()
{
    cat >"$dir/env.new" <<END
SECKILL_DATABASE_URL=postgresql://seckill_service:$PG_PASSWORD@127.0.0.1:$PG_PORT/seckill
PG_OWNER_URL=postgresql://seckill:$PG_PASSWORD@127.0.0.1:$PG_PORT/seckill
SECKILL_REDIS_URL=redis://default:$REDIS_PASSWORD@127.0.0.1:$REDIS_PORT/0
PG_SUPERUSER_URL=postgresql://postgres:$PG_PASSWORD@127.0.0.1:$PG_PORT/seckill
PG_PID=$(server_pid postgres || true)
PG_PORT=$PG_PORT
REDIS_PID=$(server_pid redis || true)
REDIS_PORT=$REDIS_PORT
REDISCLI_AUTH=$REDIS_PASSWORD
END
    mv "$dir/env.new" "$dir/env"
}

# -- PostgreSQL --

# The directory of the programs: of the version that wrote the data, or the newest.
postgres_bin()
{
    local version
    if [ -f "$dir/postgres/PG_VERSION" ]; then
        version=$(cat "$dir/postgres/PG_VERSION")
        [ -x "/usr/lib/postgresql/$version/bin/postgres" ] ||
            fail "$dir/postgres was written by PostgreSQL $version, which is not installed"
    else
        version=$(find /usr/lib/postgresql -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -n | tail -1)
        [ -n "$version" ] || fail "PostgreSQL is not installed; \`make deps\` does it"
    fi
    echo "/usr/lib/postgresql/$version/bin"
}

postgres_conf()
{
    cat <<'END'
# Written by load/servers.sh at every start.
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 100
password_encryption = 'scram-sha-256'

# Durability as it ships, said aloud.
fsync = on
full_page_writes = on
synchronous_commit = on

# Two cores, some gigabytes; no checkpoint within a benchmark of minutes.
shared_buffers = 256MB
wal_buffers = 16MB
min_wal_size = 512MB
max_wal_size = 8GB
checkpoint_timeout = 15min
max_parallel_workers_per_gather = 1
jit = off

timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] %u@%d '
END
}

# The first data. Done beside their place and moved, so that half of them are never used.
postgres_create()
{
    local bin place=$dir/postgres.new
    bin=$(postgres_bin)
    rm -rf "$place"
    mkdir "$place"
    [ "$(id -u)" -ne 0 ] || chown postgres: "$place"
    (
        exec 8<"$place" 9>&-
        (run_as postgres "$bin/initdb" -D /proc/self/fd/8 -U postgres -E UTF8 \
            --locale=C.UTF-8 --auth=reject)
        (run_as postgres "$bin/postgres" --single -D /proc/self/fd/8 -c exit_on_error=on \
            postgres) <<END
alter role postgres password '$PG_PASSWORD'
create role seckill login password '$PG_PASSWORD'
create database seckill owner seckill
END
    ) >"$dir/postgres.log" 2>&1 || fail "initdb failed, see $dir/postgres.log"
    echo 'host all all 127.0.0.1/32 scram-sha-256' >"$place/pg_hba.conf"
    mv "$place" "$dir/postgres"
}

postgres_launch()
{
    local bin
    [ -d "$dir/postgres" ] || postgres_create
    bin=$(postgres_bin)
    wait_for "$STOP_WITHIN_S" no_postgres_processes || fail "old processes in $dir/postgres"
    # A killed one leaves its mark, and whoever has not been waited for still has an id.
    rm -f "$dir/postgres/postmaster.pid"
    postgres_conf >"$dir/postgres/postgresql.conf"
    launch postgres postgres "$bin/postgres" -D /proc/self/fd/8 -p "$PG_PORT" \
        8<"$dir/postgres" </dev/null
}

postgres_answers()
{
    PGCONNECT_TIMEOUT=2 psql -XAtqc 'select 1' \
        "postgresql://seckill:$PG_PASSWORD@127.0.0.1:$PG_PORT/seckill" >/dev/null 2>&1
}

# The role that the service runs as. It owns nothing and gets its rights from `seckill
# migrate`; the owner, as its member, sees its sessions. Data of older versions lack it.
postgres_add_service_role()
{
    psql -XAtq -v password="$PG_PASSWORD" \
        "postgresql://postgres:$PG_PASSWORD@127.0.0.1:$PG_PORT/seckill" <<'END'
select format('create role seckill_service login password %L role seckill', :'password')
where to_regrole('seckill_service') is null
\gexec
END
}

# -- Redis --

redis_launch()
{
    # Its settings come on standard input: out of sight of ps, and without a path.
    launch redis redis redis-server - <<END
bind 127.0.0.1
port $REDIS_PORT
requirepass $REDIS_PASSWORD
save ""
appendonly no
END
}

redis_answers()
{
    [ "$(REDISCLI_AUTH=$REDIS_PASSWORD timeout 2 redis-cli -p "$REDIS_PORT" ping 2>/dev/null)" = PONG ]
}

# -- verbs --

answers_or_ended()
{
    is_stopped "$1" || "$1_answers"
}

# Start one. The port of a server that has never answered may turn out to be taken: then
# it gets another.
start_one()
{
    local name=$1 tries=20
    [ "$name" = postgres ] || command -v redis-server >/dev/null ||
        fail "Redis is not installed; \`make deps\` does it"
    while ! is_running "$name"; do
        "${name}_launch"
        wait_for "$ANSWER_WITHIN_S" answers_or_ended "$name" || break
        is_stopped "$name" || break
        tries=$((tries - 1))
        if [ -e "$dir/$name.answered" ] || [ "$tries" -eq 0 ] || ! port_was_taken "$name"; then
            fail_start "$name"
        fi
        change_port "$name"
    done
    signal_all "$name" CONT # in case it was paused
    wait_for "$ANSWER_WITHIN_S" "${name}_answers" || fail_start "$name"
    : >"$dir/$name.answered"
}

port_was_taken()
{
    tail -n 20 "$dir/$1.log" | grep -q 'in use'
}

fail_start()
{
    tail -n 5 "$dir/$1.log" >&2
    fail "$1 does not answer, see $dir/$1.log"
}

# Ask one to end; a paused one is woken for it. One that has just ended by itself is no
# failure: whoever asks waits until it is gone.
ask_to_stop()
{
    local pid
    pid=$(server_pid "$1") || return 0
    if [ "$1" = postgres ]; then
        kill -INT "$pid" || true # "fast": ends sessions, writes a checkpoint
    else
        kill -TERM "$pid" || true
    fi
    signal_all "$1" CONT
}

wait_until_stopped()
{
    wait_for "$STOP_WITHIN_S" is_stopped "$1" || fail "$1 does not end, see $dir/$1.log"
}

verb_kill()
{
    signal_all "$1" KILL
    wait_until_stopped "$1"
    [ "$1" = redis ] || wait_for "$STOP_WITHIN_S" no_postgres_processes ||
        fail "processes in $dir/postgres outlive SIGKILL"
}

main()
{
    local verb=${1:-} which=${3:-}
    case $verb:$which:$# in
    help:*) usage && exit 0 ;;
    up::2 | down::2 | env::2) ;;
    start:postgres:3 | stop:postgres:3 | kill:postgres:3 | pause:postgres:3 | resume:postgres:3) ;;
    start:redis:3 | stop:redis:3 | kill:redis:3 | pause:redis:3 | resume:redis:3) ;;
    *) usage >&2 && exit 2 ;;
    esac
    [ "$verb" = up ] || [ -d "$2" ] || fail "no such directory: $2"
    (umask 022 && mkdir -p "$(dirname "$2")")
    mkdir -p "$2"
    dir=$(cd "$2" && pwd)
    # One at a time in a directory; the servers themselves do not inherit the lock.
    exec 9>"$dir/lock"
    flock 9
    load_settings

    case $verb in
    up) start_one postgres && postgres_add_service_role && start_one redis ;;
    start) start_one "$which" ;;
    down)
        ask_to_stop redis
        ask_to_stop postgres
        wait_until_stopped redis
        wait_until_stopped postgres
        ;;
    stop) ask_to_stop "$which" && wait_until_stopped "$which" ;;
    kill) verb_kill "$which" ;;
    pause | resume)
        is_running "$which" || fail "$which does not run in $dir"
        signal_all "$which" "$([ "$verb" = pause ] && echo STOP || echo CONT)"
        ;;
    esac
    write_env
    [ "$verb" != env ] || cat "$dir/env"
}

main "$@"
