#!/bin/sh
#
# demo.sh up|ha|down|test - a sale in containers, by docker/compose.yaml.
#   up     start it, sell, run a load proof, print the URLs
#   ha     the same without a single point of failure, by docker/compose.ha.yaml: kill each server in
#          turn while shoppers order, and print what they saw
#   down   remove both
#   test   all of it, and check the restrictions of the containers
#
#   PORT, PROMETHEUS_PORT   ports on 127.0.0.1 (8080, 9090)
#   OFFLINE=yes             use images built from Debian packages instead of images from a
#                           registry; needs root
#
# Secrets and logs are in var/demo and var/demo-ha. `test` needs root on a Debian machine. It installs Docker if
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

# set_names PROJECT IMAGE PLACE FILE: set the names that this run uses.
set_names()
{
    project=$1
    SECKILL_IMAGE=$2
    place=$3
    url=http://127.0.0.1:$PORT
    export PORT PROMETHEUS_PORT SECKILL_IMAGE
    tool="docker compose"
    $tool version >/dev/null 2>&1 || tool=docker-compose
    compose="$tool -p $project --env-file $place/env -f docker/$4"
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
    kill "$child" 2>/dev/null || true # it may have ended
    wait "$child" || true             # it was killed
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
$(for name in POSTGRES OWNER SERVICE REPLICATION REWIND PATRONI REDIS SENTINEL; do
            echo "${name}_PASSWORD=$(random_hex)"
        done)
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

# scraped QUERY NUMBER: whether Prometheus returns this number.
scraped()
{
    [ "$(metric "$1" 2>/dev/null)" = "$2" ]
}

is_answering()
{
    [ "$(curl -s -o /dev/null -w '%{http_code}' "$url/v1/vouchers")" = 200 ]
}

need_daemon()
{
    docker info >/dev/null 2>&1 || fail "cannot reach a Docker daemon"
}

verb_up()
{
    set_names seckill-demo seckill var/demo compose.yaml
    run_demo
}

run_demo()
{
    need_daemon
    make_env
    echo "building the service"
    quietly build $compose build migrate load
    echo "starting Postgres, Redis, two instances, nginx, Prometheus"
    start=$(date +%s)
    quietly up $compose up -d
    wait_for 300 is_answering || fail "no answer from $url; docker/demo.sh down removes the demo"
    admin=$(token --user 1 --role admin) || fail "cannot create a token: $admin"
    shopper=$(token --user 1001)
    voucher=$(make_voucher)
    order=$(post "$shopper" "/v1/vouchers/$voucher/orders" | id_in)
    echo "sold $(($(date +%s) - start)) s after the start: order $order of voucher $voucher"
    echo "load proof: 4000 shoppers, 1000 pieces"
    quietly proof $compose run --rm -T load
    tail -n 1 "$place/proof.log"
    wait_for 120 scraped 'sum(up)' 2 || fail "Prometheus does not scrape both instances"
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

# -- high availability --

verb_ha()
{
    set_names seckill-ha seckill var/demo-ha compose.ha.yaml
    run_ha
    cat <<END

shop:       $url/#token=$(token --user 1002)
metrics:    http://127.0.0.1:$PROMETHEUS_PORT/graph?g0.expr=seckill_durability&g0.tab=1
stop:       make demo-down
END
}

# container_of SERVICE: print the id of its container.
container_of()
{
    docker ps -aq --filter "label=com.docker.compose.project=$project" \
        --filter "label=com.docker.compose.service=$1"
}

in_load()
{
    docker exec "$load" /src/load/demo_load.py "$@"
}

# fault NAME SERVICE [alone]: kill the service. Start it again when orders are acknowledged, or at
# once if there is no other one (alone).
fault()
{
    echo "killing $2: $1"
    in_load fault "$1"
    quietly kill docker kill "$(container_of "$2")"
    [ "${3:-}" = alone ] || in_load await
    quietly start docker start "$(container_of "$2")"
    in_load await
    in_load settle
}

# other ONE: print the name of the other one of two services.
other()
{
    case $1 in
    *1) echo "${1%1}2" ;;
    *2) echo "${1%2}1" ;;
    *) fail "no such server: $1" ;;
    esac
}

kill_each()
{
    fault "an instance" app1
    fault "the primary of Postgres" "$(in_load primary)"
    fault "its standby" "$(other "$(in_load primary)")"
    fault "the witness of Patroni" witness
    fault "the primary of Redis" "$(in_load redis)"
    fault "its replica" "$(other "$(in_load redis)")"
    fault "a sentinel" sentinel1
    fault "Prometheus" prometheus
    fault "nginx" nginx alone
}

run_ha()
{
    need_daemon
    make_env
    echo "building the service, Postgres with Patroni"
    quietly build $compose build migrate load certificate
    echo "starting two instances, Postgres with a standby, Redis with a replica and three sentinels, nginx, Prometheus"
    quietly up $compose up -d
    wait_for 300 is_answering || fail "no answer from $url; docker/demo.sh down removes the demo"
    quietly load $compose up -d --no-deps load
    load=$(container_of load)
    in_load await
    in_load settle
    kill_each
    in_load report
    code=$(docker wait "$load")
    docker logs "$load"
    [ "$code" -eq 0 ] || fail "see above"
}

# -- the end --

# Also removes a demo whose settings are lost; then it sets those that the compose file requires.
remove()
{
    make_secrets
    [ -e "$place/env" ] || cp "$place/secrets" "$place/env"
    quietly down $compose --profile load --profile grafana down -v --remove-orphans
    rm -rf "$place"
}

verb_down()
{
    need_daemon
    set_names seckill-ha seckill var/demo-ha compose.ha.yaml
    remove
    set_names seckill-demo seckill var/demo compose.yaml
    remove
}

# -- the test --

# shellcheck source=docker/demo-test.sh
. docker/demo-test.sh

# Run the README's block of Docker commands, with the images of this machine.
check_readme()
{
    make_env
    {
        echo "set -eu; docker() { shift; command $tool \"\$@\"; }"
        awk '/^```/ { if (wanted) printf "%s", block; wanted = 0; block = ""; next }
            { block = block $0 "\n" }
            /^docker compose/ { wanted = 1 }' README.md | sed "s,127.0.0.1:8080,127.0.0.1:$PORT,"
    } >"$place/readme.sh"
    quietly readme env COMPOSE_PROJECT_NAME="$project" COMMIT="$commit" $(cat "$place/images") sh "$place/readme.sh"
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
    wait_for 60 is_cached || fail "nginx does not cache the vouchers"
    check "metrics through nginx" "$(curl -s -o /dev/null -w '%{http_code}' "$url/metrics")" 404
    wait_for 120 scraped 'sum(seckill_orders_total{outcome="placed"})' 1001 ||
        fail "Prometheus counted $(metric 'sum(seckill_orders_total{outcome="placed"})') orders, expected 1001"
    wait_for 120 scraped 'count(seckill:orders:rate1m)' 15 || fail "Prometheus has not loaded the rules"
    echo "stopping one instance; the sale continues"
    quietly stop $compose stop app1
    shopper=$($compose exec -T app2 /usr/bin/seckill token --user 1004)
    post "$shopper" "/v1/vouchers/$voucher/orders" >/dev/null
    check "exit code of the stopped instance" "$(docker inspect -f '{{.State.ExitCode}}' "$($compose ps -aq app1)")" 0
    quietly image env DOCKER_BUILDKIT=0 docker build -f docker/Dockerfile --network host --build-arg BASE="$base" \
        --build-arg COMMIT="$commit" -t "$SECKILL_IMAGE-plain" .
    check "user of a plain docker build" "$(docker image inspect -f '{{.Config.User}}' "$SECKILL_IMAGE-plain")" 10001:10001
    for image in "$SECKILL_IMAGE" "$SECKILL_IMAGE-plain"; do
        size=$(docker image inspect -f '{{.Size}}' "$image")
        [ "$size" -lt 60000000 ] || fail "the image $image has $size bytes"
    done
    echo "image of the service: $((size / 1000000)) MB"
}

check_gone()
{
    label=label=com.docker.compose.project=$project
    check "remaining containers" "$(docker ps -aq --filter "$label")" ""
    check "remaining volumes" "$(docker volume ls -q --filter "$label")" ""
    check "remaining networks" "$(docker network ls -q --filter "$label")" ""
}

use_test()
{
    set_names seckill-test seckill-test var/test-demo compose.yaml
}

use_test_ha()
{
    set_names seckill-test-ha seckill-test var/test-demo-ha compose.ha.yaml
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
    SUBNET=172.31.254
    export SUBNET
    use_test
    OFFLINE=yes
    docker_pid=
    trap end_test EXIT
    docker info >/dev/null 2>&1 || start_docker
    remove_test # what a killed test has left
    use_test
    import_base
    why=$(try_container 2>&1) || not_run "containers do not work: $(echo "$why" | tail -n 1)"
    remove_probe
    check_readme
    remove
    run_demo
    check_demo
    remove
    check_gone
    use_test_ha
    run_ha
    remove
    check_gone
    echo "removed"
}

trap stop_child EXIT
trap 'exit 1' HUP INT TERM
case ${1:-} in
up | ha | down | test) "verb_$1" ;;
*) echo "usage: demo.sh up|ha|down|test" >&2 && exit 2 ;;
esac
