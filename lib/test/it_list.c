/* it_list.c - lists the owners of a lock, and of all locks. */
#include "test/waits.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#define OWNERS_MAX 2000

struct owner {
    char name[32], owner[64];
    int64_t remaining_ms, count, waiters;
    bool is_ours, is_near;
};

/** What rlock_list() has told. */
struct list_of_owners {
    struct owner owners[OWNERS_MAX];
    unsigned count, wanted; /* 0: all */
    unsigned answers;
    enum status status;
};

static bool on_owner(const struct rlock_info *info, void *arg)
{
    struct list_of_owners *list = arg;
    struct owner *owner = &list->owners[list->count++];

    assert_int_equal(list->answers, 0);
    ASSERT_NUMBER(list->count, <=, OWNERS_MAX);
    snprintf(owner->name, sizeof(owner->name), "%.*s", (int)info->name_len, info->name);
    snprintf(owner->owner, sizeof(owner->owner), "%.*s", (int)info->owner_len,
             info->owner);
    owner->remaining_ms = info->remaining_ms;
    owner->count = info->count;
    owner->waiters = info->waiters;
    owner->is_ours = info->is_ours;
    owner->is_near = info->is_near;
    return list->count != list->wanted;
}

static void on_end(enum status status, void *arg)
{
    struct list_of_owners *list = arg;

    list->answers++;
    list->status = status;
}

/** The owners of `name`, or with NULL of all locks; at most `wanted`, 0: all. */
static const struct list_of_owners *list_up_to(struct fixture *fixture,
                                               struct rlock_client *client,
                                               const char *name, unsigned wanted)
{
    static struct list_of_owners list;

    list = (struct list_of_owners){.wanted = wanted};
    rlock_list(client, name, name == NULL ? 0 : strlen(name), on_owner, on_end, &list);
    assert_int_equal(list.answers, 0);
    rlock_flush(client);
    fixture_wait_count(fixture, &list.answers, 1);
    return &list;
}

static const struct list_of_owners *
list_owners(struct fixture *fixture, struct rlock_client *client, const char *name)
{
    return list_up_to(fixture, client, name, 0);
}

static const struct owner *find(const struct list_of_owners *list, const char *name)
{
    for (unsigned i = 0; i < list->count; i++) {
        if (strcmp(list->owners[i].name, name) == 0)
            return &list->owners[i];
    }
    fail_msg("%s is not in the list", name);
    return NULL;
}

static void take(struct fixture *fixture, struct rlock_client *client, const char *name,
                 struct rlock_acquire_options options)
{
    static struct call calls[2 * OWNERS_MAX];
    static unsigned count;
    struct call *call = &calls[count++ % (2 * OWNERS_MAX)];

    *call = (struct call){0};
    ASSERT_STATUS(acquire_with(fixture, client, call, name, &options), STATUS_OK);
}

FIXTURE_CASE(test_rlock_list__tells_every_owner_of_all_kinds)
{
    static const struct rlock_kind *const kinds[] = {RENEWABLE_KINDS, &rlock_read};
    enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_client *other = fixture_client(fixture);
    const struct list_of_owners *list;
    redisReply *value;

    assert_int_equal(list_owners(fixture, client, NULL)->count, 0);
    for (int i = 0; i < KINDS; i++) {
        char name[2] = {(char)('a' + i), '\0'};

        take(fixture, client, name, waiting(kinds[i], 7, 0));
    }
    take(fixture, client, "b", waiting(&rlock_reentrant, 7, 0)); /* nested */
    take(fixture, other, "h", waiting(&rlock_read, 7, 0));
    list = list_owners(fixture, client, NULL);
    ASSERT_STATUS(list->status, STATUS_OK);
    assert_int_equal(list->count, KINDS + 1);
    for (int i = 0; i < KINDS; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        const struct owner *owner = find(list, name);

        ASSERT_BETWEEN(owner->remaining_ms, LEASE_MS / 2, LEASE_MS);
        assert_int_equal(owner->count, name[0] == 'b' || name[0] == 'h' ? 2 : 1);
        assert_int_equal(owner->waiters, 0);
        assert_true(owner->is_ours);
        assert_true(owner->is_near);
    }
    value = server_command(fixture->server, "GET a");
    assert_string_equal(find(list, "a")->owner, value->str);
    freeReplyObject(value);
}

FIXTURE_CASE(test_rlock_list__of_a_name_tells_all_its_owners)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_client *other = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_semaphore, 0, 0);
    const struct list_of_owners *list;

    options.permits = 3;
    take(fixture, client, NAME, options);
    options.lease_ms *= 2;
    take(fixture, other, NAME, options);
    take(fixture, other, "item:8", options);
    list = list_owners(fixture, client, NAME);
    ASSERT_STATUS(list->status, STATUS_OK);
    assert_int_equal(list->count, 2);
    assert_true(list->owners[0].is_ours);
    ASSERT_NUMBER(list->owners[0].remaining_ms, <=, LEASE_MS);
    assert_false(list->owners[1].is_ours);
    assert_true(list->owners[1].is_near);
    ASSERT_NUMBER(list->owners[1].remaining_ms, >, LEASE_MS);
    server_do(fixture->server, "SET item:9 by-hand");
    list = list_owners(fixture, client, "item:9");
    assert_string_equal(find(list, "item:9")->owner, "by-hand");
    assert_false(list->owners[0].is_near);
    assert_int_equal(list->owners[0].remaining_ms, -1);
    assert_int_equal(list_owners(fixture, client, "free")->count, 0);
    ASSERT_STATUS(list_owners(fixture, client, "free")->status, STATUS_OK);
    (void)server_int(fixture->server, "RPUSH item:10 value");
    ASSERT_STATUS(list_owners(fixture, client, "item:10")->status, STATUS_REFUSED);
    ASSERT_CONTAINS(rlock_client_why(client)->text, "WRONGTYPE");
    ASSERT_STATUS(list_owners(fixture, client, "")->status, STATUS_INVALID);
}

FIXTURE_CASE(test_rlock_list__counts_the_clients_that_wait)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_client *others[] = {fixture_client(fixture), fixture_client(fixture)};
    static const struct rlock_kind *const kinds[] = {&rlock_plain, &rlock_reentrant};

    for (int i = 0; i < 2; i++) {
        struct rlock_acquire_options options = waiting(kinds[i], 1, RLOCK_WAIT_FOREVER);
        const char *name = i == 0 ? "string" : "hash";
        struct call calls[3] = {0};

        take(fixture, client, name, waiting(kinds[i], 0, 0));
        for (int j = 0; j < 3; j++) { /* two of them by one client */
            call_wait(others[j / 2], &calls[j], name, &options);
            fixture_wait_asleep(fixture, others[j / 2], &calls[j]);
        }
        assert_int_equal(find(list_owners(fixture, client, NULL), name)->waiters, 2);
        assert_int_equal(find(list_owners(fixture, client, name), name)->waiters, 2);
        for (int j = 0; j < 3; j++)
            rlock_cancel(others[j / 2], &calls[j].lock);
        fixture_wait_answers(fixture, &calls[2], 1);
    }
}

static long long changes_of(struct server *server)
{
    static const char field[] = "rdb_changes_since_last_save:";
    redisReply *info = server_command(server, "INFO persistence");
    long long changes = strtoll(strstr(info->str, field) + strlen(field), NULL, 10);

    freeReplyObject(info);
    return changes;
}

/** None of them has an owner of ours or of Redisson. */
FIXTURE_CASE(test_rlock_list__skips_other_keys_and_changes_none)
{
    static const char *const keys[] = {"SET text by-hand",
                                       "SET number 17",
                                       "HSET hash field value",
                                       "HSET locks mode read 0a-0b-0c-0d-0e:7 1",
                                       "RPUSH list 0a-0b-0c-0d-0e:7",
                                       "SADD set 0a-0b-0c-0d-0e:7",
                                       "ZADD scores 1 a:1:1 2 b:2:2",
                                       "ZADD x:queue 1 0a-0b-0c-0d-0e:7:7",
                                       "ZADD expired 1 0a-0b-0c-0d-0e:7:7",
                                       "XADD stream * owner 0a-0b-0c-0d-0e:7"};
    enum { KEYS = sizeof(keys) / sizeof(keys[0]) };
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_client *other = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_fair, 0, RLOCK_WAIT_FOREVER);
    struct call call = {0};
    const struct list_of_owners *list;
    long long changes;

    for (int i = 0; i < KEYS; i++)
        server_do(fixture->server, keys[i]);
    for (int i = 0; i < 1001; i++)
        (void)server_int(fixture->server, "HSET large 0a-0b-0c-0d-0e:%d 1", i);
    take(fixture, client, NAME, options);
    call_wait(other, &call, NAME, &options);
    fixture_wait_asleep(fixture, other, &call); /* in queue and beats */
    changes = changes_of(fixture->server);
    list = list_owners(fixture, other, NULL);
    assert_int_equal(list->count, 1);
    assert_int_equal(find(list, NAME)->waiters, 1);
    assert_int_equal(changes_of(fixture->server), changes);
    rlock_cancel(other, &call.lock);
    fixture_wait_answers(fixture, &call, 1);
}

FIXTURE_CASE(test_rlock_list__finds_each_of_many)
{
    enum { LOCKS = 1500 };
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    static char seen[LOCKS];
    const struct list_of_owners *list;

    memset(seen, 0, sizeof(seen));
    server_do(fixture->server, "DEBUG POPULATE 5000 other 8");
    for (int i = 0; i < LOCKS; i++) {
        char name[16];

        snprintf(name, sizeof(name), "%d", i);
        take(fixture, client, name, waiting(&rlock_plain, 0, 0));
    }
    list = list_owners(fixture, client, NULL);
    ASSERT_STATUS(list->status, STATUS_OK);
    assert_int_equal(list->count, LOCKS);
    for (unsigned i = 0; i < list->count; i++)
        seen[strtol(list->owners[i].name, NULL, 10)]++;
    for (int i = 0; i < LOCKS; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(list_up_to(fixture, client, NULL, 3)->count, 3);
    ASSERT_STATUS(list_up_to(fixture, client, NULL, 3)->status, STATUS_OK);
}

FIXTURE_CASE(test_rlock_list__skips_what_the_user_may_not_read)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    const struct list_of_owners *list;

    take(fixture, client, "lock:1", waiting(&rlock_plain, 0, 0));
    take(fixture, client, "other:1", waiting(&rlock_plain, 0, 0));
    server_do(fixture->server, "ACL SETUSER default resetkeys ~lock:* -pubsub");
    list = list_owners(fixture, client, NULL);
    server_do(fixture->server, "ACL SETUSER default allkeys +@all");
    ASSERT_STATUS(list->status, STATUS_OK);
    assert_int_equal(list->count, 1);
    assert_int_equal(find(list, "lock:1")->waiters, -1);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
