/* it_topologies.c - Redis in a list of hosts, and behind a sentinel: all uses of it. */
#include "app/test/fixture.h"
#include "app/test/http_client.h"
#include "test/port.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int setup(void **state)
{
    *state = fixture_open();
    return 0;
}

static int teardown(void **state)
{
    return fixture_close(*state);
}

/** The login, "user:password@", and the port in the URL of the fixture's Redis. */
static void split_url(const struct fixture *fixture, char ret_login[160],
                      unsigned *ret_port)
{
    const char *begin = strstr(fixture->redis_url, "//") + 2;
    const char *at = strrchr(fixture->redis_url, '@');

    snprintf(ret_login, 160, "%.*s@", (int)(at - begin), begin);
    *ret_port = (unsigned)number_of(
        strndupa(strrchr(at, ':') + 1, strcspn(strrchr(at, ':') + 1, "/")));
}

/** A sentinel that knows the fixture's Redis as "sale". */
static pid_t start_sentinel(const struct fixture *fixture, unsigned port,
                            unsigned primary_port)
{
    char path[160], number[8];
    FILE *file;
    pid_t pid;

    snprintf(path, sizeof(path), "%s/sentinel.conf", fixture->dir);
    snprintf(number, sizeof(number), "%u", port);
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "sentinel monitor sale 127.0.0.1 %u 1\n", primary_port);
    fclose(file);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execlp("redis-server", "redis-server", path, "--sentinel", "--port", number,
               "--bind", "127.0.0.1", "--logfile", "/dev/null", (char *)NULL);
        _exit(127);
    }
    return pid;
}

static struct service *serve(struct fixture *fixture, const char *url)
{
    char setting[400];
    const char *const env[] = {setting, NULL};

    snprintf(setting, sizeof(setting), "SECKILL_REDIS_URL=%s", url);
    return fixture_serve(fixture, env);
}

/** Whether the service has published its stats, which it reads from Redis. */
static bool has_published(void *arg)
{
    const struct client_reply *reply = request(arg, admin(), NULL, "GET /v1/stats");

    return reply->status == 200 && strstr(reply->body, "\"redis_up\":") != NULL &&
           strstr(reply->body, "[[") != NULL;
}

/** Orders need the lock; tokens with an id the deny-list; the dashboard the stream. */
static void check_uses(struct fixture *fixture, struct service *service)
{
    char voucher_id[ID_SIZE], claims[120];
    const char *token;

    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    EXPECT(place_order(service, 1, voucher_id, NULL), 201, NULL);
    redis_do(fixture, "SET lock:order:2 foreign");
    EXPECT(place_order(service, 2, voucher_id, NULL), 409, "order_in_progress");
    redis_do(fixture, "DEL lock:order:2");

    snprintf(claims, sizeof(claims), "{\"sub\":\"1\",\"exp\":%lld,\"jti\":\"stolen\"}",
             (long long)time(NULL) + 600);
    token = token_hs256(NULL, claims, FIXTURE_SECRET);
    EXPECT(request(service, token, NULL, "GET /v1/orders"), 200, NULL);
    redis_do(fixture, "SET revoked:stolen 1");
    EXPECT(request(service, token, NULL, "GET /v1/orders"), 401, "unauthenticated");
    redis_do(fixture, "DEL revoked:stolen");

    AWAIT(has_published, service);
}

static void test_serve__with_a_list_of_hosts(void **state)
{
    struct fixture *fixture = *state;
    char login[160], url[300];
    unsigned port;

    split_url(fixture, login, &port);
    snprintf(url, sizeof(url), "redis://%s127.0.0.1:%u,127.0.0.1:%u/0", login,
             port_free(), port);
    check_uses(fixture, serve(fixture, url));
}

static void test_serve__behind_a_sentinel(void **state)
{
    struct fixture *fixture = *state;
    unsigned port, sentinel_port = port_free();
    char login[160], url[300];
    pid_t sentinel;

    split_url(fixture, login, &port);
    sentinel = start_sentinel(fixture, sentinel_port, port);
    snprintf(url, sizeof(url), "redis-sentinel://%s127.0.0.1:%u/0?master=sale", login,
             sentinel_port);
    check_uses(fixture, serve(fixture, url));
    kill(sentinel, SIGKILL);
    waitpid(sentinel, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_serve__with_a_list_of_hosts),
        CASE(test_serve__behind_a_sentinel),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
