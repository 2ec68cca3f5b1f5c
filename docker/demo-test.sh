# shellcheck shell=sh disable=SC2154
#
# demo-test.sh - functions of `demo.sh test`: start a private Docker daemon, try whether a container
# can run as the demo needs it, and remove both. demo.sh sources this file.

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
    # The daemon adds no firewall rules: containers reach each other, and builds use the host
    # network. It has its own session, so signals of the terminal reach only this script, and it
    # stops when this script is killed.
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

remove_test()
{
    use_test_ha
    remove
    use_test
    remove
}

# Remove the images that the test has built. The images of a private daemon are removed with its data.
remove_images()
{
    for image in "" -plain -load -patroni; do
        [ -z "$(docker images -q "$SECKILL_IMAGE$image")" ] || docker rmi -f "$SECKILL_IMAGE$image" >/dev/null || return 1
    done
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
        (remove_test) || code=1
        [ -n "$docker_pid" ] || remove_images || code=1
    fi
    stop_docker || code=1
    exit "$code"
}

# The test is not run unless the machine provides these.
need_docker()
{
    need_root
    need_tar trixie
    docker info >/dev/null 2>&1 || need_packages .ci/packages-demo dockerd
    # A separate package since Debian 13.
    need_packages .ci/packages-docker-cli docker
    docker compose version >/dev/null 2>&1 || need_packages .ci/packages-demo docker-compose
}
