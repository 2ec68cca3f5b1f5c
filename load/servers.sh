#!/bin/bash
#
# servers.sh - start and stop a private PostgreSQL and a private Redis whose files are all in
# one directory. `servers.sh help` lists the commands.
#
# Both listen on loopback only, with random passwords. The directory keeps their ports. PostgreSQL
# runs with its default durability, because the tests and benchmarks are about orders that survive a
# crash. Redis writes nothing to disk: a lock is a lease of seconds, and must not reappear after a
# restart.
#
# When started by root, the servers run as the users `postgres` and `redis`. These users may be
# unable to open the directory by its path, for example below /root, which has mode 700. So
# PostgreSQL gets its data directory as an open descriptor, /proc/self/fd/8. Redis needs no
# directory.
#
# A process is identified by its id and its start time, so a signal never reaches another
# process that reuses the id.
set -euo pipefail
umask 077
export LC_ALL=C

readonly ANSWER_WITHIN_S=60
readonly STOP_WITHIN_S=120

usage()
{
    cat <<'END'
load/servers.sh COMMAND DIR [ARGUMENT]; SERVER is postgres or redis
  up DIR              start both; create DIR and the data if they do not exist
  down DIR            stop both cleanly; the data stay
  hold DIR            like up and env, then wait for the end of standard input and stop both,
                      so that the servers end with the process at the other end of the pipe
  clone DIR FROM      create DIR with a copy of the data and the passwords of FROM, whose
                      servers must have been stopped; then use `up`
  start DIR SERVER    start one server, on the same port as before
  stop DIR SERVER     stop one server cleanly
  kill DIR SERVER     send SIGKILL to all its processes
  pause DIR SERVER    send SIGSTOP to all its processes
  resume DIR SERVER   send SIGCONT to all its processes
  env DIR             print DIR/env: URLs, process ids and ports as shell assignments
Exit codes: 0 success, 1 failure, 2 usage error.
END
}

fail()
{
    echo "servers.sh: $*" >&2
    exit 1
}

# -- processes --

# Print the start time of a process. Fails if the process does not exist or is a zombie.
process_stat()
{
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # The name, in parentheses, may contain anything. Field 3 follows the last parenthesis.
    # shellcheck disable=SC2086
    set -- ${stat##*) }
    [ "$1" != Z ] || return 1
    echo "${20}"
}

# Print the id of a server's main process. Fails if the server does not run.
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

# Print the ids of all PostgreSQL processes whose working directory is the data directory,
# including orphans. A process that ends meanwhile is not listed.
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

# signal_all NAME SIGNAL: send a signal to all processes of a server. The main process is stopped
# first, so that it starts no new processes, and gets the signal last. Processes that have ended
# meanwhile are ignored.
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

# wait_for SECONDS COMMAND...: repeat the command until it succeeds.
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

# run_as USER COMMAND...: replace this shell by the command, which runs as USER if we are root. Its
# working directory is /, which USER can read.
run_as()
{
    local user=$1
    shift
    cd /
    [ "$(id -u)" -ne 0 ] || set -- setpriv --reuid="$user" --regid="$user" --init-groups -- "$@"
    exec "$@"
}

# launch NAME USER COMMAND...: start a server in the background. It has a session of its own, so
# signals of the terminal do not reach it. It inherits standard input.
launch()
{
    local name=$1 user=$2
    shift 2
    # Without `<&0` the shell would connect a background job to /dev/null.
    run_as "$user" setsid "$@" <&0 >>"$dir/$name.log" 2>&1 9>&- &
    echo "$! $(process_stat $!)" >"$dir/$name.pid" || fail "$name ended during its start, see $dir/$name.log"
    disown
}

# -- settings --

random_hex()
{
    od -An -N16 -tx1 /dev/urandom | tr -d ' \n'
}

# Ports below 32768: while the server is down, the kernel gives no such port to an outgoing
# connection.
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

# change_port NAME: choose another port for a server that has never run.
change_port()
{
    local variable=PG_PORT
    [ "$1" = postgres ] || variable=REDIS_PORT
    sed -i "s/^$variable=.*/$variable=$(random_port)/" "$dir/settings"
    load_settings
}

# Write DIR/env. The process id of a server that does not run is empty.
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

# Print the directory of PostgreSQL's programs. If there are data, the version is the one that
# created them, otherwise it is the newest.
postgres_bin()
{
    local version
    if [ -f "$dir/postgres/PG_VERSION" ]; then
        version=$(cat "$dir/postgres/PG_VERSION")
        [ -x "/usr/lib/postgresql/$version/bin/postgres" ] ||
            fail "$dir/postgres was created by PostgreSQL $version, which is not installed"
    else
        version=$(find /usr/lib/postgresql -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -n | tail -1)
        [ -n "$version" ] || fail "PostgreSQL is not installed; run \`make deps\`"
    fi
    echo "/usr/lib/postgresql/$version/bin"
}

# The psql of Debian's PATH is a script in Perl that finds the program; it takes longer than psql.
psql()
{
    "$(postgres_bin)/psql" "$@"
}

postgres_conf()
{
    cat <<'END'
# Written by load/servers.sh at every start.
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
password_encryption = 'scram-sha-256'

# Durability: the defaults.
fsync = on
full_page_writes = on
synchronous_commit = on

# For two cores and a few GiB. There is no checkpoint during a benchmark of some minutes.
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

# Create the data in another place, and move them when they are complete.
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
            --locale=C.UTF-8 --auth=reject --wal-segsize="${PG_WAL_SEGMENT_MB:-16}")
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
    wait_for "$STOP_WITHIN_S" no_postgres_processes || fail "old processes still use $dir/postgres"
    # A killed server leaves its pid file, and a zombie may still have the id in this file.
    rm -f "$dir/postgres/postmaster.pid"
    postgres_conf >"$dir/postgres/postgresql.conf"
    # This line is for a standby or a backup. Data of older versions lack it.
    grep -q replication "$dir/postgres/pg_hba.conf" ||
        echo 'host replication postgres 127.0.0.1/32 scram-sha-256' >>"$dir/postgres/pg_hba.conf"
    launch postgres postgres "$bin/postgres" -D /proc/self/fd/8 -p "$PG_PORT" \
        8<"$dir/postgres" </dev/null
}

postgres_answers()
{
    PGCONNECT_TIMEOUT=2 psql -XAtqc 'select 1' \
        "postgresql://seckill:$PG_PASSWORD@127.0.0.1:$PG_PORT/seckill" >/dev/null 2>&1
}

# The role of the service owns nothing; `seckill migrate` grants its rights. The owner of the tables
# is a member of this role, and so sees its sessions. Data of older versions lack the role.
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
    # The settings come on standard input, so that ps does not show the password.
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

# -- commands --

answers_or_ended()
{
    is_stopped "$1" || "$1_answers"
}

# Start a server. If it has never answered and its port is taken, try another port.
start_one()
{
    local name=$1 tries=20
    [ "$name" = postgres ] || command -v redis-server >/dev/null ||
        fail "Redis is not installed; run \`make deps\`"
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
    signal_all "$name" CONT # it may have been paused
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

# Tell a server to stop. A paused server is resumed first. The server may end by itself meanwhile,
# and the caller waits until it has stopped.
request_stop()
{
    local pid
    pid=$(server_pid "$1") || return 0
    if [ "$1" = postgres ]; then
        kill -INT "$pid" || true # fast shutdown: ends sessions, writes a checkpoint
    else
        kill -TERM "$pid" || true
    fi
    signal_all "$1" CONT
}

wait_until_stopped()
{
    wait_for "$STOP_WITHIN_S" is_stopped "$1" || fail "$1 does not stop, see $dir/$1.log"
}

start_both()
{
    start_one postgres
    postgres_add_service_role
    start_one redis
}

stop_both()
{
    request_stop redis
    request_stop postgres
    wait_until_stopped redis
    wait_until_stopped postgres
}

# Start both servers, and stop them however this command ends. Other commands may run meanwhile.
hold_both()
{
    trap 'flock 9; stop_both' EXIT
    start_both
    write_env
    cat "$dir/env"
    exec >&-
    flock -u 9
    cat >/dev/null
    exit
}

kill_server()
{
    signal_all "$1" KILL
    wait_until_stopped "$1"
    [ "$1" = redis ] || wait_for "$STOP_WITHIN_S" no_postgres_processes ||
        fail "processes in $dir/postgres survive SIGKILL"
}

# clone_data FROM: copy the data and the passwords of another directory.
clone_data()
{
    local from
    from=$(cd "$1" && pwd)
    [ ! -e "$dir/postgres" ] || fail "$dir already has data"
    # A clean shutdown removes the pid file.
    if [ ! -d "$from/postgres" ] || [ -e "$from/postgres/postmaster.pid" ]; then
        fail "$from has no data of a server that was stopped cleanly"
    fi
    rm -rf "$dir/postgres.new"
    cp -a --reflink=auto "$from/postgres" "$dir/postgres.new"
    grep PASSWORD "$from/settings" >>"$dir/settings"
    load_settings
    mv "$dir/postgres.new" "$dir/postgres"
}

main()
{
    local command=${1:-} which=${3:-}
    case $command:$which:$# in
    help:*) usage && exit 0 ;;
    up::2 | down::2 | hold::2 | env::2 | clone:?*:3) ;;
    start:postgres:3 | stop:postgres:3 | kill:postgres:3 | pause:postgres:3 | resume:postgres:3) ;;
    start:redis:3 | stop:redis:3 | kill:redis:3 | pause:redis:3 | resume:redis:3) ;;
    *) usage >&2 && exit 2 ;;
    esac
    case $command in
    up | hold | clone) ;;
    *) [ -d "$2" ] || fail "no such directory: $2" ;;
    esac
    (umask 022 && mkdir -p "$(dirname "$2")")
    mkdir -p "$2"
    dir=$(cd "$2" && pwd)
    # Only one command at a time runs per directory. The servers do not inherit the lock.
    exec 9>"$dir/lock"
    flock 9
    load_settings

    case $command in
    up) start_both ;;
    hold) hold_both ;;
    start) start_one "$which" ;;
    down) stop_both ;;
    clone) clone_data "$which" ;;
    stop) request_stop "$which" && wait_until_stopped "$which" ;;
    kill) kill_server "$which" ;;
    pause | resume)
        is_running "$which" || fail "$which does not run in $dir"
        signal_all "$which" "$([ "$command" = pause ] && echo STOP || echo CONT)"
        ;;
    esac
    write_env
    [ "$command" != env ] || cat "$dir/env"
}

main "$@"
