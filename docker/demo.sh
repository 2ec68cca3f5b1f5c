#!/bin/sh
#
# demo.sh up|down|test - a sale in containers, by docker/compose.yaml.
#   up     start it, sell, run a load proof, print the URLs
#   down   remove it
#   test   both, and check the restrictions of the containers
#
#   PORT, PROMETHEUS_PORT   ports on 127.0.0.1 (8080, 9090)
#   OFFLINE=yes             use images built from Debian packages instead of images from a
#                           registry; needs root
#
# Secrets and logs are in var/demo. `test` needs root on a Debian machine. It installs Docker if
# it is missing, and starts a private Docker daemon if none runs, which changes neither the
# machine's firewall nor /var/lib/docker. If that is impossible, it prints "not run" and the
# reason. It uses its own names, so it does not disturb a running demo.
# shellcheck disable=SC2016,SC2046,SC2086 # $compose is many words; bash in a container expands some
set -eu
cd "$(dirname "$0")/.."

PORT=${PORT:-8080}
PROMETHEUS_PORT=${PROMETHEUS_PORT:-9090}
STEP_WITHIN_S=1200
base=seckill-offline/debian:13
child=

fail()
{
    echo "demo: $*" >&2
    exit 1
}

# set_names PROJECT IMAGE PLACE: the names that this run uses.
set_names()
{
    project=$1
    SECKILL_IMAGE=$2
    place=$3
    url=http://127.0.0.1:$PORT
    export PORT PROMETHEUS_PORT SECKILL_IMAGE
    tool="docker compose"
    $tool version >/dev/null 2>&1 || tool=docker-compose
    compose="$tool -p $project --env-file $place/env -f docker/compose.yaml"
}

# quietly NAME COMMAND...: write the output to a log and show its end if the command fails. The
# command runs in the background, so that a signal to this script takes effect at once.
quietly()
{
    log=$place/$1.log
    shift
    timeout "$STEP_WITHIN_S" "$@" >"$log" 2>&1 &
    child=$!
    wait "$child" || {
        tail -n 30 "$log" >&2
        fail "failed: $*"
    }
    child=
}

stop_child()
{
    [ -n "$child" ] || return 0
    kill "$child" 2>/dev/null || true
    wait "$child" || true
}

# wait_for SECONDS COMMAND...: repeat the command until it succeeds.
wait_for()
{
    deadline=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt "$deadline" ] || return 1
        sleep 0.2
    done
}

random_hex()
{
    od -An -N32 -tx1 /dev/urandom | tr -d ' \n'
}

import_base()
{
    [ -n "$(docker images -q "$base")" ] || docker import "$(.ci/root.sh trixie)" "$base" >/dev/null
}

# The secrets are kept as long as the data.
make_secrets()
{
    mkdir -p "$place"
    [ ! -e "$place/secrets" ] || return 0
    (
        umask 077
        cat >"$place/secrets.new" <<END
POSTGRES_PASSWORD=$(random_hex)
REDIS_PASSWORD=$(random_hex)
SECKILL_JWT_SECRET=$(random_hex)
END
    )
    mv "$place/secrets.new" "$place/secrets"
}

make_env()
{
    make_secrets
    : >"$place/images"
    if [ "${OFFLINE:-}" = yes ]; then
        echo "building the images from Debian packages"
        import_base
        quietly offline .ci/offline-images/build.sh "$base" "$place/images"
    fi
    commit=$(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || echo unknown)
    (umask 077 && { cat "$place/secrets" "$place/images" && echo "COMMIT=$commit"; } >"$place/env")
}

token()
{
    $compose exec -T app1 /usr/bin/seckill token "$@"
}

# post TOKEN PATH [JSON]: print the answer; its status must be 201.
post()
{
    curl -sS -o "$place/answer" -w '%{http_code}' -X POST "$url$2" -H "Authorization: Bearer $1" \
        -H 'Content-Type: application/json' ${3:+-d "$3"} >"$place/status"
    [ "$(cat "$place/status")" = 201 ] || fail "POST $2: $(cat "$place/status" "$place/answer")"
    cat "$place/answer"
}

id_in()
{
    sed 's/^{"id":"\([0-9]*\)".*/\1/'
}

make_voucher()
{
    post "$admin" /v1/vouchers '{"title":"Dinner for two, 100 for 9","price_cents":900,
        "face_value_cents":10000,"stock":100,"begin_at":"'"$(date -u -d '-1 min' +%FT%TZ)"'",
        "end_at":"'"$(date -u -d '+1 day' +%FT%TZ)"'"}' | id_in
}

# metric QUERY: print the number that Prometheus returns.
metric()
{
    curl -sS -G "http://127.0.0.1:$PROMETHEUS_PORT/api/v1/query" --data-urlencode "query=$1" |
        sed -n 's/.*"value":\[[^,]*,"\([0-9]*\)"\].*/\1/p'
}

# scraped QUERY NUMBER
scraped()
{
    [ "$(metric "$1" 2>/dev/null)" = "$2" ]
}

is_answering()
{
    [ "$(curl -s -o /dev/null -w '%{http_code}' "$url/v1/vouchers")" = 200 ]
}

verb_up()
{
    docker info >/dev/null 2>&1 || fail "cannot reach a Docker daemon"
    make_env
    docker/api-docs.sh docker/docs/api.html || echo "the API page is not rendered"
    echo "building the service"
    quietly build $compose build migrate load
    echo "starting Postgres, Redis, two instances, nginx, Prometheus"
    quietly up $compose up -d
    wait_for 60 is_answering || fail "no answer from $url; docker/demo.sh down removes the demo"
    admin=$(token --user 1 --role admin) || fail "cannot create a token: $admin"
    shopper=$(token --user 1001)
    voucher=$(make_voucher)
    order=$(post "$shopper" "/v1/vouchers/$voucher/orders" | id_in)
    echo "sold: order $order of voucher $voucher"
    echo "load proof: 4000 shoppers, 1000 pieces"
    quietly proof $compose run --rm -T load
    tail -n 1 "$place/proof.log"
    wait_for 30 scraped 'sum(up)' 2 || fail "Prometheus does not scrape both instances"
    cat <<END

shop:       $url/#token=$(token --user 1002)
dashboard:  $url/admin#token=$admin
API:        $url/docs
metrics:    http://127.0.0.1:$PROMETHEUS_PORT/graph?g0.expr=sum(seckill_orders_total)by(outcome)&g0.tab=1
stop:       make demo-down

Buy one:
curl -sS -X POST $url/v1/vouchers/$voucher/orders -H 'Authorization: Bearer $(token --user 1003)'
END
}

# Also removes a demo whose settings are gone: compose.yaml needs some.
verb_down()
{
    docker info >/dev/null 2>&1 || fail "cannot reach a Docker daemon"
    make_secrets
    [ -e "$place/env" ] || cp "$place/secrets" "$place/env"
    quietly down $compose --profile load --profile grafana down -v --remove-orphans
    rm -rf "$place"
}

# -- the test --

# Run the block of the README for those with Docker, with the images of this machine.
check_readme()
{
    make_env
    {
        echo "set -eu; docker() { shift; command $tool \"\$@\"; }"
        awk '/^```/ { if (wanted) printf "%s", block; wanted = 0; block = ""; next }
            { block = block $0 "\n" }
            /^docker compose/ { wanted = 1 }' README.md | sed "s,127.0.0.1:8080,127.0.0.1:$PORT,"
    } >"$place/readme.sh"
    quietly readme env COMPOSE_PROJECT_NAME="$project" $(cat "$place/images") sh "$place/readme.sh"
    case $(tail -n 1 "$place/readme.log") in
    *'"status":"unpaid"'*) echo "the README sold an order" ;;
    *) fail "the README sold nothing: $(tail -n 2 "$place/readme.log")" ;;
    esac
}

check()
{
    [ "$2" = "$3" ] || fail "$1: \"$2\", expected \"$3\""
}

# in_app SCRIPT: run it with bash in the container of the first instance and print its output.
in_app()
{
    $compose exec -T app1 /bin/bash -c "$1" 2>/dev/null || echo refused
}

# Whether the second of two reads comes from the cache; a second may pass between them.
is_cached()
{
    curl -sS -o /dev/null "$url/v1/vouchers"
    curl -sS -o /dev/null -D - "$url/v1/vouchers" | grep -q '^X-Cache: HIT'
}

check_demo()
{
    check "user of the service" "$(in_app 'echo $UID')" 10001
    check "write to the root file system" "$(in_app 'echo >/tmp/x')" refused
    check "capabilities" "$(in_app 'status=$(</proc/self/status) && echo ${status#*CapBnd:} | { read -r set _ && echo $set; }')" 0000000000000000
    check "API page" "$(curl -s -o /dev/null -w '%{http_code} %{content_type}' "$url/docs")" "200 text/html"
    wait_for 10 is_cached || fail "nginx does not cache the vouchers"
    check "metrics through nginx" "$(curl -s -o /dev/null -w '%{http_code}' "$url/metrics")" 404
    wait_for 30 scraped 'sum(seckill_orders_total{outcome="placed"})' 1001 ||
        fail "Prometheus counted $(metric 'sum(seckill_orders_total{outcome="placed"})') orders, expected 1001"
    wait_for 30 scraped 'count(seckill:orders:rate1m)' 13 || fail "Prometheus has not loaded the rules"
    echo "stopping one instance; the sale continues"
    quietly stop $compose stop app1
    shopper=$($compose exec -T app2 /usr/bin/seckill token --user 1004)
    post "$shopper" "/v1/vouchers/$voucher/orders" >/dev/null
    check "exit code of the stopped instance" "$(docker inspect -f '{{.State.ExitCode}}' "$($compose ps -aq app1)")" 0
    size=$(docker image inspect -f '{{.Size}}' "$SECKILL_IMAGE")
    [ "$size" -lt 60000000 ] || fail "the image of the service has $size bytes"
    echo "image of the service: $((size / 1000000)) MB"
}

check_gone()
{
    label=label=com.docker.compose.project=$project
    check "remaining containers" "$(docker ps -aq --filter "$label")" ""
    check "remaining volumes" "$(docker volume ls -q --filter "$label")" ""
    check "remaining networks" "$(docker network ls -q --filter "$label")" ""
}

free_port()
{
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Start a private Docker daemon for this test.
start_docker()
{
    run=$(mktemp -d /tmp/seckill-docker.XXXXXX)
    data=$PWD/var/docker
    rm -rf "$data"
    mkdir -p "$data"
    DOCKER_HOST=unix://$run/docker.sock
    export DOCKER_HOST
    # It adds no firewall rules: containers reach each other, and builds use the host network. It
    # has its own session, so signals of the terminal reach only this script, and it stops when
    # this script is killed.
    setsid setpriv --pdeathsig TERM dockerd --data-root "$data" --exec-root "$run/exec" --pidfile "$run/pid" -H "$DOCKER_HOST" \
        --bridge none --iptables=false --ip6tables=false --ip-masq=false --ip-forward=false \
        >"$run/log" 2>&1 </dev/null &
    docker_pid=$!
    wait_for 60 answers_or_ended || true
    docker info >/dev/null 2>&1 || {
        why=$(grep -e 'level=fatal' -e 'failed to start' "$run/log" | tail -n 1)
        not_run "dockerd does not start: ${why:-$(tail -n 1 "$run/log")}"
    }
}

docker_ended()
{
    ! kill -0 "$docker_pid" 2>/dev/null
}

answers_or_ended()
{
    docker info >/dev/null 2>&1 || docker_ended
}

stop_docker()
{
    [ -n "$docker_pid" ] || return 0
    kill "$docker_pid" 2>/dev/null || true
    wait_for 60 docker_ended || kill -KILL "$docker_pid"
    wait "$docker_pid" || true
    umount "$run"/exec/netns/* "$data" 2>/dev/null || true # dockerd leaves these mounted
    rm -rf "$run" "$data"
}

# Check that a container of the kind the demo needs works: it resolves names of other containers,
# sees a mounted file, and is reachable on a port of this machine.
try_container()
{
    remove_probe
    docker network create "$project-probe"
    docker run -d --name "$project-probe" --network "$project-probe" --network-alias probe \
        --user 65534:65534 --read-only --cap-drop ALL --security-opt no-new-privileges:true \
        -v "$PWD/docker/nginx.conf:/probe:ro" -p "127.0.0.1:$PORT:8080" "$base" perl -MIO::Socket::INET -e '
            gethostbyname("probe") or die "no name\n";
            -s "/probe" or die "no file\n";
            my $all = IO::Socket::INET->new(LocalPort => 8080, Listen => 9) or die "no port\n";
            while (my $one = $all->accept) { <$one>; print $one "HTTP/1.0 200 OK\r\n\r\n" }' || return
    wait_for 60 curl -fsS -m 5 "$url" || {
        docker logs "$project-probe"
        return 1
    }
}

remove_probe()
{
    docker rm -f "$project-probe" >/dev/null 2>&1 || true
    docker network rm "$project-probe" >/dev/null 2>&1 || true
}

# Remove everything, also after a failure. It is a failure if something cannot be removed.
end_test()
{
    code=$?
    trap - EXIT
    trap '' HUP INT TERM
    stop_child
    if docker info >/dev/null 2>&1; then
        remove_probe
        (verb_down) || code=1
        [ -n "$docker_pid" ] || docker rmi -f "$SECKILL_IMAGE" "$SECKILL_IMAGE-load" >/dev/null 2>&1 || true
    fi
    stop_docker || code=1
    exit "$code"
}

# What the machine must provide, or else the test is not run.
need_docker()
{
    need_root
    need_tar trixie
    docker info >/dev/null 2>&1 || need_packages .ci/packages-demo dockerd
    # A separate package since Debian 13.
    need_packages .ci/packages-docker-cli docker
    docker compose version >/dev/null 2>&1 || need_packages .ci/packages-demo docker-compose
}

verb_test()
{
    # shellcheck disable=SC2034 # used in able.sh
    what=demo
    # shellcheck source=.ci/able.sh
    . .ci/able.sh
    need_docker
    PORT=$(free_port)
    PROMETHEUS_PORT=$(free_port)
    set_names seckill-test seckill-test var/test-demo
    OFFLINE=yes
    docker_pid=
    trap end_test EXIT
    docker info >/dev/null 2>&1 || start_docker
    verb_down # remove what a killed test has left
    import_base
    why=$(try_container 2>&1) || not_run "containers do not work: $(echo "$why" | tail -n 1)"
    remove_probe
    check_readme
    verb_down
    verb_up
    check_demo
    verb_down
    check_gone
    echo "removed"
}

trap stop_child EXIT
trap 'exit 1' HUP INT TERM
set_names seckill-demo seckill var/demo
case ${1:-} in
up | down | test) "verb_$1" ;;
*) echo "usage: demo.sh up|down|test" >&2 && exit 2 ;;
esac
