/*
 * proxy.c - has two pipes for each connection, and parses the commands and replies between them.
 *
 * Only complete values are forwarded, in their order, so that a fault has its exact place in the
 * stream. The proxy keeps the names of the commands that the server has not answered: the next
 * reply belongs to the oldest of them.
 */
#include "test/proxy.h"
#include "test/asserts.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AWAITED_MAX 1024
#define READ_SIZE   ((size_t)65536)
#define MESSAGE     "message"
#define UNIX_LEN    5 /* length of "unix:" */

struct flow {
    char *bytes;
    size_t len, size;
};

struct link {
    struct rlock_link link;
    struct proxy *proxy;
    uv_pipe_t client, server;
    uv_connect_t connect;
    struct flow requests, replies;
    char awaited[AWAITED_MAX][PROXY_NAME_SIZE]; /* a ring buffer */
    unsigned first_awaited, awaited_count;
    bool holds_requests, holds_replies;
    int open_sides;
};

struct text {
    const char *at;
    size_t len;
};

/** Return the length of the RESP value that begins at `at`, or 0 if the value is not complete
 *  yet. */
static size_t value_len(const char *at, size_t len)
{
    const char *end = len > 0 ? memchr(at, '\n', len) : NULL;
    size_t total;
    long count;

    if (end == NULL)
        return 0;
    total = (size_t)(end - at) + 1;
    if (*at != '$' && *at != '*')
        return total;
    count = strtol(at + 1, NULL, 10);
    if (*at == '$')
        total += count < 0 ? 0 : (size_t)count + 2;
    for (long i = 0; *at == '*' && i < count; i++) {
        size_t inner = value_len(at + total, len - total);

        if (inner == 0)
            return 0;
        total += inner;
    }
    return total <= len ? total : 0;
}

/** Return the `index`-th element of a complete array. The result has length 0 if the element is
 *  not a string, or does not exist. */
static struct text word_at(const char *value, size_t len, unsigned index)
{
    const char *at = (const char *)memchr(value, '\n', len) + 1;
    const char *end = value + len;

    if (*value != '*' || strtol(value + 1, NULL, 10) <= (long)index)
        return (struct text){value, 0};
    for (unsigned i = 0; i < index; i++)
        at += value_len(at, (size_t)(end - at));
    if (*at != '$' || at[1] == '-')
        return (struct text){at, 0};
    return (struct text){(const char *)memchr(at, '\n', (size_t)(end - at)) + 1,
                         strtoul(at + 1, NULL, 10)};
}

static bool is_text(struct text text, const char *wanted)
{
    return text.len == strlen(wanted) && memcmp(text.at, wanted, text.len) == 0;
}

static void name_command(const struct proxy *proxy, const char *command, size_t len,
                         char ret_name[PROXY_NAME_SIZE])
{
    struct text verb = word_at(command, len, 0);
    struct text handle = word_at(command, len, 1);

    ASSERT_BETWEEN(verb.len, 1, PROXY_NAME_SIZE - 1);
    for (size_t i = 0; i < verb.len; i++)
        ret_name[i] = (char)tolower(verb.at[i]);
    ret_name[verb.len] = '\0';
    for (int i = 0; strncmp(ret_name, "eval", 4) == 0 && i < RLOCK_SCRIPT_COUNT; i++) {
        const struct redis_script *script = &proxy->scripts[i];

        if (is_text(handle, script->sha) || is_text(handle, script->body))
            snprintf(ret_name, PROXY_NAME_SIZE, "%s", script->name);
    }
}

/** Return how many replies the command will have. SUBSCRIBE has one for each channel. */
static long count_replies(const char *name, const char *command)
{
    long words = strtol(command + 1, NULL, 10);

    return strstr(name, "subscribe") != NULL && words > 1 ? words - 1 : 1;
}

static void await(struct link *link, const char *name)
{
    unsigned last = (link->first_awaited + link->awaited_count) % AWAITED_MAX;

    ASSERT_NUMBER(link->awaited_count++, <, AWAITED_MAX);
    snprintf(link->awaited[last], PROXY_NAME_SIZE, "%s", name);
}

static const char *name_reply(const struct link *link, const char *reply, size_t len)
{
    if (is_text(word_at(reply, len, 0), MESSAGE))
        return MESSAGE;
    ASSERT_NUMBER(link->awaited_count, >, 0);
    return link->awaited[link->first_awaited];
}

static void has_come(struct link *link, const char *name)
{
    if (strcmp(name, MESSAGE) == 0)
        return;
    link->first_awaited = (link->first_awaited + 1) % AWAITED_MAX;
    link->awaited_count--;
}

static bool is_of_request(enum proxy_fault fault)
{
    return fault == PROXY_CUT_UNSENT || fault == PROXY_CUT_ASTRAY ||
           fault == PROXY_HOLD_UNSENT;
}

static enum proxy_fault strike(struct proxy *proxy, const char *name, bool is_request)
{
    struct proxy_plan *plan = &proxy->plan;
    enum proxy_fault fault = plan->fault;

    if (fault == PROXY_NONE || is_of_request(fault) != is_request ||
        strcmp(name, plan->name) != 0)
        return PROXY_NONE;
    if (plan->passing > 0) {
        plan->passing--;
        return PROXY_NONE;
    }
    if (!plan->is_lasting)
        plan->fault = PROXY_NONE;
    proxy->faults++;
    return fault;
}

static void on_side_closed(uv_handle_t *side)
{
    struct link *link = side->data;

    if (--link->open_sides > 0)
        return;
    list_remove(&link->link);
    free(link->requests.bytes);
    free(link->replies.bytes);
    free(link);
}

static void close_side(uv_pipe_t *side)
{
    if (!uv_is_closing((uv_handle_t *)side))
        uv_close((uv_handle_t *)side, on_side_closed);
}

static void link_close(struct link *link)
{
    close_side(&link->client);
    close_side(&link->server);
}

struct parcel {
    uv_write_t write;
    char bytes[];
};

static void on_written(uv_write_t *write, int status)
{
    (void)status; /* if the side has closed, the next read reports it */
    free(write->data);
}

static void pass(uv_pipe_t *side, const char *bytes, size_t len, unsigned times)
{
    struct parcel *parcel = malloc(sizeof(*parcel) + len * times);
    uv_buf_t buf = uv_buf_init(parcel->bytes, (unsigned)(len * times));

    for (unsigned i = 0; i < times; i++)
        memcpy(parcel->bytes + i * len, bytes, len);
    parcel->write.data = parcel;
    assert_int_equal(uv_write(&parcel->write, (uv_stream_t *)side, &buf, 1, on_written),
                     0);
}

static void shift(struct flow *flow, size_t len)
{
    flow->len -= len;
    memmove(flow->bytes, flow->bytes + len, flow->len);
}

static void pass_request(struct link *link, size_t len)
{
    char name[PROXY_NAME_SIZE];

    name_command(link->proxy, link->requests.bytes, len, name);
    switch (strike(link->proxy, name, true)) {
    case PROXY_CUT_UNSENT:
        link_close(link);
        return;
    case PROXY_CUT_ASTRAY:
        close_side(&link->client);
        link->holds_requests = true;
        return;
    case PROXY_HOLD_UNSENT:
        link->holds_requests = true;
        return;
    default:
        break;
    }
    for (long i = count_replies(name, link->requests.bytes); i > 0; i--)
        await(link, name);
    pass(&link->server, link->requests.bytes, len, 1);
    shift(&link->requests, len);
}

static void pass_reply(struct link *link, size_t len)
{
    const char *bytes = link->replies.bytes;
    const char *name = name_reply(link, bytes, len);

    switch (strike(link->proxy, name, false)) {
    case PROXY_CUT_INSIDE:
        pass(&link->client, bytes, len / 2, 1);
        link_close(link);
        return;
    case PROXY_CUT_BEFORE:
        link_close(link);
        return;
    case PROXY_HOLD:
        link->holds_replies = true;
        return;
    case PROXY_DROP:
        break;
    case PROXY_DUPLICATE:
        pass(&link->client, bytes, len, 2);
        break;
    default:
        pass(&link->client, bytes, len, 1);
        break;
    }
    has_come(link, name);
    shift(&link->replies, len);
}

static bool is_open(const uv_pipe_t *side)
{
    return !uv_is_closing((const uv_handle_t *)side);
}

static void pass_requests(struct link *link)
{
    size_t len;

    while (is_open(&link->server) && !link->holds_requests &&
           (len = value_len(link->requests.bytes, link->requests.len)) > 0)
        pass_request(link, len);
}

static void pass_replies(struct link *link)
{
    size_t len;

    while (is_open(&link->client) && !link->holds_replies &&
           (len = value_len(link->replies.bytes, link->replies.len)) > 0)
        pass_reply(link, len);
}

static void make_room(struct flow *flow, uv_buf_t *ret_buf)
{
    if (flow->size - flow->len < READ_SIZE) {
        flow->size = flow->len + 2 * READ_SIZE;
        flow->bytes = realloc(flow->bytes, flow->size);
    }
    *ret_buf = uv_buf_init(flow->bytes + flow->len, READ_SIZE);
}

static void on_alloc_request(uv_handle_t *side, size_t size, uv_buf_t *ret_buf)
{
    (void)size;
    make_room(&((struct link *)side->data)->requests, ret_buf);
}

static void on_alloc_reply(uv_handle_t *side, size_t size, uv_buf_t *ret_buf)
{
    (void)size;
    make_room(&((struct link *)side->data)->replies, ret_buf);
}

static void on_request(uv_stream_t *side, ssize_t len, const uv_buf_t *buf)
{
    struct link *link = side->data;

    (void)buf;
    if (len < 0 && link->holds_requests) {
        /* the server will get the held commands nevertheless */
        close_side(&link->client);
    } else if (len < 0) {
        link_close(link);
    } else {
        link->requests.len += (size_t)len;
        pass_requests(link);
    }
}

static void on_reply(uv_stream_t *side, ssize_t len, const uv_buf_t *buf)
{
    struct link *link = side->data;

    (void)buf;
    if (len < 0) {
        link_close(link);
    } else {
        link->replies.len += (size_t)len;
        pass_replies(link);
    }
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct link *link = connect->data;

    if (status == UV_ECANCELED)
        return;
    if (status < 0) {
        link_close(link);
        return;
    }
    uv_read_start((uv_stream_t *)&link->client, on_alloc_request, on_request);
    uv_read_start((uv_stream_t *)&link->server, on_alloc_reply, on_reply);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct proxy *proxy = listener->data;
    struct link *link = calloc(1, sizeof(*link));

    assert_int_equal(status, 0);
    link->proxy = proxy;
    link->open_sides = 2;
    link->client.data = link->server.data = link->connect.data = link;
    list_append(&proxy->links, &link->link);
    proxy->connections++;
    uv_pipe_init(listener->loop, &link->client, 0);
    uv_pipe_init(listener->loop, &link->server, 0);
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&link->client), 0);
    uv_pipe_connect(&link->connect, &link->server, proxy->target, on_connected);
}

struct proxy *proxy_start(uv_loop_t *loop, const char *server_url)
{
    static unsigned started;
    struct proxy *proxy = calloc(1, sizeof(*proxy));

    snprintf(proxy->url, sizeof(proxy->url), "unix:/tmp/rlock-proxy.%ld.%u",
             (long)getpid(), ++started);
    proxy->target = server_url + UNIX_LEN;
    list_init(&proxy->links);
    rlock_scripts_init(proxy->scripts, false);
    signal(SIGPIPE, SIG_IGN); /* libuv may write to a side that has just closed */
    uv_pipe_init(loop, &proxy->listener, 0);
    proxy->listener.data = proxy;
    unlink(proxy->url + UNIX_LEN);
    assert_int_equal(uv_pipe_bind(&proxy->listener, proxy->url + UNIX_LEN), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&proxy->listener, 16, on_connection), 0);
    return proxy;
}

static void on_listener_closed(uv_handle_t *listener)
{
    free(listener->data);
}

void proxy_stop(struct proxy *proxy)
{
    struct rlock_link *at;

    while ((at = list_shift(&proxy->links)) != NULL)
        link_close(list_item(at, struct link, link));
    /* this unlinks the path */
    uv_close((uv_handle_t *)&proxy->listener, on_listener_closed);
}

static void plan(struct proxy *proxy, const char *name, struct proxy_plan plan)
{
    snprintf(plan.name, sizeof(plan.name), "%s", name);
    proxy->plan = plan;
}

void proxy_at(struct proxy *proxy, const char *name, unsigned nth, enum proxy_fault fault)
{
    plan(proxy, name, (struct proxy_plan){.passing = nth - 1, .fault = fault});
}

void proxy_always(struct proxy *proxy, const char *name, enum proxy_fault fault)
{
    plan(proxy, name, (struct proxy_plan){.is_lasting = true, .fault = fault});
}

static void let_go(struct link *link)
{
    link->holds_requests = link->holds_replies = false;
    pass_requests(link);
    pass_replies(link);
    if (!is_open(&link->client))
        close_side(&link->server);
}

void proxy_let_go(struct proxy *proxy)
{
    proxy->plan.fault = PROXY_NONE;
    for (struct rlock_link *at = proxy->links.next; at != &proxy->links; at = at->next)
        let_go(list_item(at, struct link, link));
}
