/*
 * it_acl.c - the least rights that the manual page lists.
 *
 * A kind works with the rights that the page lists for it. If any of these rights is missing, the
 * kind does not work, and the client names the missing right.
 */
#include "test/port.h"
#include "test/waits.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RIGHTS_MAX 64
#define FENCES     "shop:fence"
#define LEAST      "redis://least"

extern const char acl_page[];
__asm__(
    ".pushsection .rodata\nacl_page:\n.incbin \"lib/man/rlock.7\"\n.byte 0\n.popsection");

struct rights {
    char words[RIGHTS_MAX][48]; /* as ACL SETUSER takes them */
    unsigned count;
};

struct session {
    struct fixture *fixture;
    struct rlock_client *owner, *waiter;
    bool is_woken;
    char why[256]; /* reason of the first failure, or of a refused subscription */
};

/** Append `word`. In the word, NAME stands for the name of the lock, and "lock:fence" for the
 *  key of the fence counter. */
static void add_right(struct rights *rights, const char *word, size_t len)
{
    char text[48], *at;

    ASSERT_NUMBER(rights->count, <, RIGHTS_MAX);
    snprintf(text, sizeof(text), "%.*s", (int)len, word);
    if ((at = strstr(text, "NAME")) != NULL)
        snprintf(rights->words[rights->count++], sizeof(text), "%.*s" NAME "%s",
                 (int)(at - text), text, at + strlen("NAME"));
    else if ((at = strstr(text, "lock:fence")) != NULL)
        snprintf(rights->words[rights->count++], sizeof(text), "%.*s" FENCES "%s",
                 (int)(at - text), text, at + strlen("lock:fence"));
    else
        memcpy(rights->words[rights->count++], text, sizeof(text));
}

/** Add the rights below the item `name` of the page. */
static void add_item(struct rights *rights, const char *name)
{
    const char *line = strstr(acl_page, "\n.Sh ACCESS CONTROL");
    unsigned before = rights->count;

    do
        line = strstr(line + 1, "\n.It ");
    while (line != NULL &&
           memmem(line + 1, strcspn(line + 1, "\n"), name, strlen(name)) == NULL);
    while (line != NULL && (line = strchr(line + 1, '\n')) != NULL &&
           strncmp(line, "\n.Li ", 5) == 0)
        for (const char *word = line + 5; word[-1] != '\n';) {
            size_t len = strcspn(word, " \n");

            add_right(rights, word, len);
            word += len + 1;
        }
    ASSERT_NUMBER(rights->count, >, before);
}

/** Give the user "least" all of the rights except number `without`. */
static void set_user(struct server *server, const struct rights *rights, unsigned without)
{
    char command[4096] = "ACL SETUSER least reset on >secret";

    for (unsigned i = 0; i < rights->count; i++) {
        size_t len = strlen(command);

        if (i != without)
            snprintf(command + len, sizeof(command) - len, " %s", rights->words[i]);
    }
    server_do(server, command);
}

static bool is_up_or_refused(void *arg)
{
    struct rlock_client *client = arg;

    return rlock_client_is_up(client) || rlock_client_why(client)->text[0] != '\0';
}

/** @login  scheme and user of the URL; the password is "secret" */
static struct rlock_client *open_client(struct fixture *fixture, const char *login,
                                        const char *fence_key)
{
    struct rlock_client *client;
    char url[128];

    snprintf(url, sizeof(url), "%s:secret@127.0.0.1:%u", login, fixture->server->port);
    client = fixture_open(
        fixture, (struct rlock_client_options){
                     .redis_url = url, .fence_key = fence_key, .timeout_ms = TIMEOUT_MS});
    FIXTURE_AWAIT(fixture, is_up_or_refused, client);
    return client;
}

static bool is_ok(struct session *session, struct rlock_client *client,
                  enum rlock_status status)
{
    if (status != RLOCK_OK && session->why[0] == '\0')
        memcpy(session->why, rlock_client_why(client)->text, sizeof(session->why));
    return status == RLOCK_OK;
}

static bool is_asleep_or_answered(void *arg)
{
    const struct call *call = arg;

    return call->answers > 0 || (call->lock.waiter != NULL && call->lock.batch == NULL);
}

/** One client acquires and extends the lock. The other client waits for it, and the release wakes
 *  it. */
static void use_lock(struct session *session, const struct rlock_kind *kind)
{
    struct rlock_acquire_options options = waiting(kind, 1, RLOCK_WAIT_FOREVER);
    struct fixture *fixture = session->fixture;
    struct rlock_client *owner = session->owner, *waiter = session->waiter;
    struct call held = {0}, call = {0};

    if (!is_ok(session, owner, acquire_with(fixture, owner, &held, NAME, &options)))
        return;
    if (kind != &rlock_getset)
        (void)is_ok(session, owner, extend(fixture, owner, &held, LEASE_MS));
    options.kind = kind == &rlock_read ? &rlock_write : kind;
    call_wait(waiter, &call, NAME, &options);
    FIXTURE_AWAIT(fixture, is_asleep_or_answered, &call);
    fixture_settle(fixture); /* the channel is subscribed, or refused */
    fixture_hold_timers(fixture);
    (void)is_ok(session, owner, release(fixture, owner, &held));
    fixture_settle(fixture);
    session->is_woken = call.answers > 0 && is_ok(session, waiter, call.status);
    if (session->is_woken)
        (void)is_ok(session, waiter, release(fixture, waiter, &call));
    else
        rlock_cancel(waiter, &call.lock);
    fixture_settle(fixture);
    if (session->why[0] == '\0')
        memcpy(session->why, rlock_client_why(waiter)->text, sizeof(session->why));
}

static bool works(struct session *session, struct fixture *fixture, const char *login,
                  const char *fence_key, const struct rlock_kind *kind)
{
    bool leaves_channels;

    *session = (struct session){.fixture = fixture};
    session->owner = open_client(fixture, login, fence_key);
    session->waiter = open_client(fixture, login, fence_key);
    use_lock(session, kind);
    leaves_channels = channels_in_use(fixture) > 0;
    fixture_close(fixture, session->waiter);
    fixture_close(fixture, session->owner);
    server_do(fixture->server, "FLUSHALL");
    return session->why[0] == '\0' && !leaves_channels &&
           (session->is_woken || kind == &rlock_getset);
}

/** Return a part of the message by which a client names this missing right. */
static const char *words_for(const char *right)
{
    if (strcmp(right, "+publish") == 0 || strcmp(right, "+spublish") == 0)
        return ""; /* the release succeeds */
    if (right[0] == '+')
        return right + 1;
    if (right[0] == '&')
        return "channel";
    return strstr(right, FENCES) == NULL ? "keys" : right;
}

/** Assert that the kind works with all rights that the page lists for `item`, and does not work
 *  without any one of these rights. */
static void check_item(struct fixture *fixture, const struct rlock_kind *kind,
                       const char *item)
{
    struct rights rights = {0};
    struct session session;
    unsigned first;

    add_item(&rights, "every client");
    add_item(&rights, "waiting");
    first = rights.count;
    if (kind == &rlock_plain)
        first = 0;
    else
        add_item(&rights, item);
    set_user(fixture->server, &rights, RIGHTS_MAX);
    if (!works(&session, fixture, LEAST, FENCES, kind))
        fail_msg("%s, with all rights: %s", item, session.why);
    for (unsigned i = first; i < rights.count; i++) {
        set_user(fixture->server, &rights, i);
        if (works(&session, fixture, LEAST, FENCES, kind))
            fail_msg("%s works without %s", item, rights.words[i]);
        if (strstr(session.why, words_for(rights.words[i])) == NULL)
            fail_msg("%s without %s: '%s'", item, rights.words[i], session.why);
        if (rights.words[i][0] == '+' && kind != &rlock_plain)
            assert_string_equal(session.why + strlen("NOPERM the user lacks "),
                                rights.words[i]);
    }
}

#define RIGHTS_CASE(kind, item)                                                          \
    FIXTURE_CASE(test_rights__of_##kind##_are_the_least)                                 \
    {                                                                                    \
        check_item(*state, &rlock_##kind, item);                                         \
    }

RIGHTS_CASE(plain, "every client")
RIGHTS_CASE(reentrant, "rlock_reentrant")
RIGHTS_CASE(fair, "rlock_fair")
RIGHTS_CASE(semaphore, "rlock_semaphore")
RIGHTS_CASE(fair_semaphore, "rlock_fair_semaphore")
RIGHTS_CASE(read, "rlock_read")
RIGHTS_CASE(write, "rlock_write")
RIGHTS_CASE(getset, "rlock_getset")

FIXTURE_CASE(test_rights__of_the_command_of_the_page_suffice)
{
    static const struct rlock_kind *const kinds[] = {
        &rlock_plain,          &rlock_cohort, &rlock_fair,  &rlock_semaphore,
        &rlock_fair_semaphore, &rlock_read,   &rlock_write,
    };
    const char *at = strstr(acl_page, "ACL SETUSER"), *end = strstr(at, "\n.Ed");
    struct fixture *fixture = *state;
    char command[1024];

    snprintf(command, sizeof(command), "%.*s", (int)(end - at), at);
    for (char *blank = command; (blank = strchr(blank, '\n')) != NULL;)
        *blank = ' ';
    server_do(fixture->server, command);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct session session;

        if (!works(&session, fixture, "redis://locks", NULL, kinds[i]))
            fail_msg("kind %zu: %s", i, session.why);
    }
}

FIXTURE_CASE(test_rights__are_tried_without_a_change_of_a_counter_that_is_none)
{
    struct fixture *fixture = *state;

    server_do(fixture->server, "HSET " FENCES " a 1");
    (void)open_client(fixture, "redis://default", FENCES);
    assert_int_equal(server_int(fixture->server, "HLEN " FENCES), 1);
}

FIXTURE_CASE(test_wait__without_the_rights_of_waiting_polls)
{
    static const struct rlock_kind *const kinds[] = {&rlock_plain, &rlock_cohort};
    struct fixture *fixture = *state;
    struct rights rights = {0};

    add_item(&rights, "every client");
    set_user(fixture->server, &rights, RIGHTS_MAX);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct rlock_acquire_options options = waiting(kinds[i], 0, RLOCK_WAIT_FOREVER);
        struct rlock_client *owner = open_client(fixture, LEAST, FENCES);
        struct rlock_client *waiter = open_client(fixture, LEAST, FENCES);
        struct call held = {0}, call = {0};

        ASSERT_STATUS(acquire_with(fixture, owner, &held, NAME, &options), RLOCK_OK);
        call_wait(waiter, &call, NAME, &options);
        call_rest(fixture, &call);
        fixture_settle(fixture);
        ASSERT_CONTAINS(rlock_client_why(waiter)->text, "subscribe");
        ASSERT_STATUS(release(fixture, owner, &held), RLOCK_OK);
        fixture_pass_ms(fixture, 501);
        fixture_wait_answers(fixture, &call, 1);
        ASSERT_STATUS(call.status, RLOCK_OK);
        ASSERT_STATUS(release(fixture, waiter, &call), RLOCK_OK);
    }
}

/* -- calls that need more -- */

enum query { QUERY_INSPECT, QUERY_LIST, QUERY_FORCE };

static bool count_owner(const struct rlock_info *info, void *arg)
{
    struct answer *answer = arg;

    answer->count += info->name_len == strlen(NAME);
    return true;
}

static void on_listed(enum rlock_status status, void *arg)
{
    struct answer *answer = arg;

    answer->status = status;
    answer->answers++;
}

/** Whether a query finds the lock. If the query is refused, `ret_why` gets the message. */
static bool finds(struct fixture *fixture, enum query query, char ret_why[256])
{
    struct rlock_client *client = open_client(fixture, LEAST, FENCES);
    struct answer answer = {0};
    struct call held = {0};
    bool is_found;

    ASSERT_STATUS(acquire(fixture, client, &held, NAME, LEASE_MS), RLOCK_OK);
    if (query == QUERY_LIST) {
        rlock_list(client, NULL, 0, count_owner, on_listed, &answer);
        rlock_flush(client);
        fixture_wait_count(fixture, &answer.answers, 1);
        is_found = answer.status == RLOCK_OK && answer.count == 1;
    } else {
        is_found = (query == QUERY_FORCE ? force : inspect)(fixture, client, &answer,
                                                            NAME) == RLOCK_OK;
    }
    memcpy(ret_why, rlock_client_why(client)->text, 256);
    (void)release(fixture, client, &held);
    fixture_close(fixture, client);
    return is_found;
}

static void assert_least(struct fixture *fixture, enum query query, const char *item)
{
    struct rights rights = {0};
    unsigned first;
    char why[256];

    add_item(&rights, "every client");
    first = rights.count;
    add_item(&rights, item);
    set_user(fixture->server, &rights, RIGHTS_MAX);
    assert_true(finds(fixture, query, why));
    for (unsigned i = first; i < rights.count; i++) {
        set_user(fixture->server, &rights, i);
        if (finds(fixture, query, why))
            fail_msg("%s works without %s", item, rights.words[i]);
        ASSERT_CONTAINS(why, words_for(rights.words[i]));
    }
}

FIXTURE_CASE(test_rights__of_each_query_are_the_least)
{
    static const char *const items[] = {"rlock_inspect", "rlock_list",
                                        "rlock_force_release"};
    struct fixture *fixture = *state;

    for (enum query query = QUERY_INSPECT; query <= QUERY_FORCE; query++)
        assert_least(fixture, query, items[query]);
}

/* -- in a cluster -- */

static bool is_complete(void *arg)
{
    redisReply *reply = server_command(arg, "CLUSTER INFO");
    bool is_ok = strstr(reply->str, "cluster_state:ok") != NULL;

    freeReplyObject(reply);
    return is_ok;
}

/** Change the rights as the page says for a cluster: each name begins with a tag, and sharded
 *  pub/sub is used. */
static void add_tags(struct rights *rights)
{
    for (unsigned i = 0; i < rights->count; i++) {
        char *word = rights->words[i], before[48];
        size_t at = word[0] == '~' ? 1 : strcspn(word, ":") + 1;

        memcpy(before, word, sizeof(before));
        if (strncmp(word, "&redisson", 9) == 0)
            snprintf(word, sizeof(before), "&redisson_lock__channel:{*}" NAME);
        else if (strcmp(word, "+publish") == 0 || strstr(word, "subscribe") != NULL)
            snprintf(word, sizeof(before), "+s%.40s", before + 1);
        else if (word[0] == '~' || word[0] == '&')
            snprintf(word, sizeof(before), "%.*s{*}%.30s", (int)at, before, before + at);
    }
}

FIXTURE_CASE(test_rights__in_a_cluster_are_the_least)
{
    char bus_port[8];
    const char *const options[] = {"--cluster-enabled", "yes", "--cluster-port", bus_port,
                                   NULL};
    static const struct rlock_kind *const kinds[] = {RENEWABLE_KINDS};
    static const char *const items[] = {"every client", "waiting", "rlock_reentrant",
                                        "rlock_fair", "rlock_semaphore"};
    struct fixture *fixture = *state;
    struct server *group_server = fixture->server, node = {0};
    struct rights rights = {0};
    struct session session;
    unsigned first = 0;

    snprintf(bus_port, sizeof(bus_port), "%u", port_free());
    server_start(&node, options);
    server_do(&node, "CLUSTER ADDSLOTSRANGE 0 16383");
    FIXTURE_AWAIT(fixture, is_complete, &node);
    fixture->server = &node;
    for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
        add_item(&rights, items[i]);
        first = i == 1 ? rights.count : first;
    }
    add_item(&rights, "rlock_write");
    add_tags(&rights);
    set_user(&node, &rights, RIGHTS_MAX);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!works(&session, fixture, "redis-cluster://least", FENCES, kinds[i]))
            fail_msg("kind %zu: %s", i, session.why);
    }
    for (unsigned i = 0; i < first; i++) {
        set_user(&node, &rights, i);
        if (works(&session, fixture, "redis-cluster://least", FENCES, &rlock_plain))
            fail_msg("works without %s", rights.words[i]);
    }
    fixture->server = group_server;
    server_stop(&node);
}

/* -- what an operator sees -- */

/** The client comes up soon after the user got the missing right. */
FIXTURE_CASE(test_rights__that_are_missing_keep_the_client_down)
{
    struct fixture *fixture = *state;
    struct rights rights = {0};
    struct rlock_client *client;
    struct call call = {0};

    add_item(&rights, "every client");
    set_user(fixture->server, &rights, RIGHTS_MAX);
    server_do(fixture->server, "ACL SETUSER least -incrby resetkeys ~" NAME);
    client = open_client(fixture, LEAST, FENCES);
    assert_false(rlock_client_is_up(client));
    assert_string_equal(rlock_client_why(client)->text,
                        "NOPERM the user lacks +incrby ~" FENCES " ~" FENCES ":waiting");
    ASSERT_STATUS(acquire(fixture, client, &call, NAME, LEASE_MS), RLOCK_REFUSED);
    assert_int_equal(rlock_refusal(rlock_client_why(client)), RLOCK_REFUSED_PERMISSION);
    set_user(fixture->server, &rights, RIGHTS_MAX);
    fixture_wait_up(fixture, client);
    ASSERT_STATUS(acquire(fixture, client, &call, NAME, LEASE_MS), RLOCK_OK);
    ASSERT_STATUS(release(fixture, client, &call), RLOCK_OK);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
