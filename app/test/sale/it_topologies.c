/* it_topologies.c - the service with Redis behind a sentinel, and with a Redis cluster. */
#include "app/test/sale/fault_fixture.h"
#include "test/port.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pid_t start_server(unsigned port, const char *config, const char *mode)
{
    char path[160], number[8];
    FILE *file;
    pid_t pid;

    /* Each server has its own file: the next server may start before this server has read its
       file. */
    snprintf(path, sizeof(path), "%s/%u.conf", fixture->dir, port);
    snprintf(number, sizeof(number), "%u", port);
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "dir %s\nsave \"\"\n%s\n", fixture->dir, config);
    fclose(file);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execlp("redis-server", "redis-server", path, "--port", number, "--bind",
               "127.0.0.1", "--logfile", "/dev/null", mode, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void stop_server(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static struct service *serve(const char *url)
{
    char setting[400];
    const char *const env[] = {setting, NULL};

    snprintf(setting, sizeof(setting), "SECKILL_REDIS_URL=%s", url);
    return fixture_serve(fixture, env);
}

static bool has_published(void *arg)
{
    const struct client_reply *reply = request(arg, admin(), NULL, "GET /v1/stats");

    return reply->status == 200 && strstr(reply->body, "\"redis_up\":") != NULL &&
           strstr(reply->body, "[[") != NULL;
}

static void redis_cli(const char *url, const char *verb, const char *key,
                      const char *value)
{
    const char *const argv[] = {"redis-cli", "-e", "-u",  url, "--no-auth-warning",
                                verb,        key,  value, NULL};
    const struct command_result *result = fixture_run(fixture, NULL, argv);

    if (result->code != 0)
        fail_msg("redis-cli %s %s: %s%s", verb, key, result->out, result->err);
}

static void check_uses(struct service *service, const char *redis, const char *lock,
                       const char *stolen)
{
    char voucher_id[ID_SIZE], claims[120];
    const char *token;

    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    EXPECT(place_order(service, 1, voucher_id, NULL), 201, NULL);
    redis_cli(redis, "SET", lock, "foreign");
    EXPECT(place_order(service, 2, voucher_id, NULL), 409, "order_in_progress");
    redis_cli(redis, "DEL", lock, NULL);

    snprintf(claims, sizeof(claims), "{\"sub\":\"1\",\"exp\":%lld,\"jti\":\"stolen\"}",
             (long long)time(NULL) + 600);
    token = token_hs256(NULL, claims, FIXTURE_SECRET);
    EXPECT(request(service, token, NULL, "GET /v1/orders"), 200, NULL);
    redis_cli(redis, "SET", stolen, "1");
    EXPECT(request(service, token, NULL, "GET /v1/orders"), 401, "unauthenticated");
    redis_cli(redis, "DEL", stolen, NULL);

    AWAIT(has_published, service);
}

SERVICE_CASE(test_serve__behind_a_sentinel)
{
    const char *login = strstr(fixture->redis_url, "//") + 2;
    const char *host = strrchr(fixture->redis_url, '@') + 1;
    const char *port = strchr(host, ':') + 1;
    unsigned sentinel_port = port_free();
    char url[300], config[80];
    pid_t sentinel;

    snprintf(config, sizeof(config), "sentinel monitor sale 127.0.0.1 %.*s 1",
             (int)strcspn(port, "/"), port);
    sentinel = start_server(sentinel_port, config, "--sentinel");
    snprintf(url, sizeof(url), "redis-sentinel://%.*s127.0.0.1:%u/0?master=sale",
             (int)(host - login), login, sentinel_port);
    check_uses(serve(url), fixture->redis_url, "lock:order:2", "revoked:stolen");
    stop_server(sentinel);
}

/** The masters of a cluster. The second has only the hash slot of the lock of shopper 5, whose hash
 *  tag is {1}. */
static struct node {
    unsigned port;
    char config[200], url[40];
    pid_t pid;
} nodes[2];

static bool says(const struct node *node, const char *expected, const char *words)
{
    char copy[100], *rest = copy;
    const char *argv[16] = {"redis-cli", "-e", "-u", node->url};

    snprintf(copy, sizeof(copy), "%s", words);
    for (size_t i = 4; (argv[i] = strsep(&rest, " ")) != NULL; i++)
        ;
    return strstr(fixture_run(fixture, NULL, argv)->out, expected) != NULL;
}

static void start_node(struct node *node)
{
    node->pid = start_server(node->port, node->config, NULL);
}

static bool have_all_slots(void *unused UNUSED)
{
    return says(&nodes[0], "cluster_slots_ok:16384", "cluster info") &&
           says(&nodes[1], "cluster_slots_ok:16384", "cluster info");
}

static bool is_pong(void *node)
{
    return says(node, "PONG", "ping");
}

static void start_cluster(void)
{
    char meet[60];
    unsigned bus = 0;

    for (int i = 0; i < 2; i++) {
        nodes[i].port = port_free();
        bus = port_free();
        snprintf(nodes[i].url, sizeof(nodes[i].url), "redis://127.0.0.1:%u",
                 nodes[i].port);
        snprintf(nodes[i].config, sizeof(nodes[i].config),
                 "cluster-enabled yes\ncluster-port %u\ncluster-node-timeout 60000\n"
                 "cluster-config-file nodes-%d.conf",
                 bus, i);
        start_node(&nodes[i]);
        AWAIT(is_pong, &nodes[i]);
    }
    assert_true(says(&nodes[1], "OK", "cluster set-config-epoch 1"));
    assert_true(says(&nodes[0], "OK", "cluster addslotsrange 0 9841 9843 16383"));
    assert_true(says(&nodes[1], "OK", "cluster addslots 9842"));
    snprintf(meet, sizeof(meet), "cluster meet 127.0.0.1 %u %u", nodes[1].port, bus);
    assert_true(says(&nodes[0], "OK", meet));
    AWAIT(have_all_slots, NULL);
}

static bool has_redis(struct service *service, const char *state)
{
    const struct client_reply *reply = request(service, NULL, NULL, "GET /readyz");

    return reply->status == 200 && strstr(reply->body, state) != NULL;
}

static bool is_degraded(void *service)
{
    return has_redis(service, "\"redis\":\"degraded\"");
}

static bool has_all_masters(void *service)
{
    return has_redis(service, "\"redis\":\"up\"");
}

SERVICE_CASE(test_serve__with_a_cluster)
{
    char url[80], voucher_id[ID_SIZE];
    struct service *service;

    start_cluster();
    snprintf(url, sizeof(url), "redis-cluster://127.0.0.1:%u", nodes[0].port);
    service = serve(url);
    check_uses(service, nodes[0].url, "{4}lock:order:2", "{revoked:}stolen");
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    stop_server(nodes[1].pid);
    AWAIT(is_degraded, service);
    EXPECT(place_order(service, 3, voucher_id, NULL), 201, NULL);
    EXPECT(place_order(service, 5, voucher_id, NULL), 503, "unavailable");
    stop_server(nodes[0].pid);
    service_await(service, "/readyz", 503);
    start_node(&nodes[0]);
    start_node(&nodes[1]);
    AWAIT(has_all_masters, service);
    EXPECT(place_order(service, 5, voucher_id, NULL), 201, NULL);
    stop_server(nodes[0].pid);
    stop_server(nodes[1].pid);
}

int main(void)
{
    return cases_run(open_fixture, close_fixture);
}
