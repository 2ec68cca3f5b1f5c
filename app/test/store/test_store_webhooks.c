/* test_store_webhooks.c - the endpoints of the webhooks, with fake connections. */
#include "app/test/store/shop_fixture.h"
#include "test/torture.h"

static void on_webhooks(enum rlock_status status, const struct webhook *webhooks,
                        size_t count, void *arg)
{
    assert_ptr_equal(arg, shop);
    SAY("%s", rlock_status_name(status));
    for (size_t i = 0; i < count; i++)
        SAY(" %lld %lld %lld %s %s %lld_%lld", (long long)webhooks[i].id,
            (long long)webhooks[i].version, (long long)webhooks[i].fence, webhooks[i].url,
            webhooks[i].secret, (long long)webhooks[i].position.first,
            (long long)webhooks[i].position.number);
    SAY(";");
}

static void on_noted(enum rlock_status status, bool is_disabled, void *arg)
{
    assert_ptr_equal(arg, shop);
    SAY("%s%s;", rlock_status_name(status), is_disabled ? " disabled" : "");
}

static void note(const char *error, const char *sent, const char *rows)
{
    const struct webhook webhook = {
        .id = 3, .version = 4, .fence = 5, .position = {6, 7}};
    static const struct webhook_delivery deliveries[] = {
        {8, 946684800000009, 10, ""}, {11, 946684800000012, 13, "late"}};
    const struct webhook_note what = {.webhook = &webhook,
                                      .error = error,
                                      .deliveries = deliveries,
                                      .delivery_count = error != NULL ? 2 : 0};

    store_note_webhook(shop, &what, on_noted, shop);
    store_flush(shop);
    ASSERT_SENT(sent);
    fake_answer(rows != NULL ? RLOCK_OK : RLOCK_IO, rows);
}

STORE_CASE(test_list_webhooks__returns_each_endpoint)
{
    static const char *const answers[] = {
        "1 2 3 'https://a' 's' 4 5;6 7 8 'http://b' 't' 9 10;", "", NULL};

    for (size_t i = 0; i < 3; i++) {
        store_list_webhooks(shop, on_webhooks, shop);
        store_flush(shop);
        ASSERT_SENT("reads list_webhooks 251/1000: ");
        fake_answer(answers[i] != NULL ? RLOCK_OK : RLOCK_IO, answers[i]);
    }
    ASSERT_SAID("ok 1 2 3 https://a s 4_5 6 7 8 http://b t 9_10;ok;io;");
}

STORE_CASE(test_list_webhooks__without_memory)
{
    store_list_webhooks(shop, on_webhooks, shop);
    store_flush(shop);
    ASSERT_SENT("reads list_webhooks 251/1000: ");
    torture_fail(1, 0);
    fake_answer(RLOCK_OK, "1 2 3 'https://a' 's' 4 5;");
    assert_true(torture_stop());
    ASSERT_SAID("no_memory;");
}

STORE_CASE(test_note_webhook__says_what_was_noted)
{
    static const char sent[] = "reads note_webhook 251/1000: 3 4 5 6 7 null {} {} {} {}";

    note(NULL, sent, "0;");
    note("timed out",
         "reads note_webhook 251/1000: 3 4 5 6 7 'timed out' {8,11} {9,12} {10,13} "
         "{null,'late'}",
         "1;");
    note(NULL, sent, "null;");
    note(NULL, sent, NULL);
    ASSERT_SAID("ok;ok disabled;not_owner;io;");
}

static void on_states(enum rlock_status status, const struct webhook_state *states,
                      size_t count, void *arg)
{
    assert_ptr_equal(arg, shop);
    SAY("%s", rlock_status_name(status));
    for (size_t i = 0; i < count; i++)
        SAY(" %lld %lld %lld %d %s %lld_%lld %lld %s %s", (long long)states[i].id,
            (long long)states[i].lag_us, (long long)states[i].failing_us,
            states[i].is_disabled, states[i].url, (long long)states[i].first,
            (long long)states[i].number, (long long)states[i].failing_since_us,
            states[i].error != NULL ? states[i].error : "-",
            states[i].secret != NULL ? states[i].secret : "-");
    SAY(";");
}

STORE_CASE(test_read_webhook_states__of_each_endpoint)
{
    static const char *const answers[] = {
        "1 2 3 0 'u' 4 5 null null null;6 7 8 1 'v' 9 10 11 'e' 's';", "", NULL};

    for (size_t i = 0; i < 3; i++) {
        store_read_webhook_states(shop, on_states, shop);
        store_flush(shop);
        ASSERT_SENT("reads webhook_states 251/1000: ");
        fake_answer(answers[i] != NULL ? RLOCK_OK : RLOCK_IO, answers[i]);
    }
    ASSERT_SAID("ok 1 2 3 0 u 4_5 0 - - 6 7 8 1 v 9_10 946684800000011 e s;ok;io;");
}

static const struct feed_position position = {4, 5};
static void call_add(void)
{
    const struct webhook_change change = {.url = {"https://u", 9},
                                          .secret = "s",
                                          .position = &position,
                                          .author = {"admin:1", {"key", 3}}};

    store_add_webhook(shop, &change, on_states, shop);
}

static void call_add_at_end(void)
{
    const struct webhook_change change = {
        .url = {"https://u", 9}, .secret = "s", .author = {"admin:1", {NULL, 0}}};

    store_add_webhook(shop, &change, on_states, shop);
}

static void call_enable(void)
{
    const struct webhook_change change = {.webhook_id = 3,
                                          .is_enabled = true,
                                          .position = &position,
                                          .author = {"admin:1", {NULL, 0}}};

    store_change_webhook(shop, &change, on_states, shop);
}

static void call_disable(void)
{
    const struct webhook_change change = {.webhook_id = 3,
                                          .author = {"admin:1", {NULL, 0}}};

    store_change_webhook(shop, &change, on_states, shop);
}

static void call_remove(void)
{
    store_remove_webhook(shop, 3, on_states, shop);
}

/* clang-format off */
static const struct {
    void (*call)(void);
    const char *sent;
    enum rlock_status status;
    const char *answer, *constraint; /* the answer is an SQLSTATE if the call fails */
    const char *said;
} change_rows[] = {
    {call_add, "changes webhook_add 562/862: 'https://u' 's' 4 5 'key' 'admin:1'", RLOCK_OK,
     "3 0 0 0 'u' 4 5 null null 's';", NULL, "ok 3 0 0 0 u 4_5 0 - s;"},
    {call_add, "changes webhook_add 562/862: 'https://u' 's' 4 5 'key' 'admin:1'", RLOCK_REFUSED,
     "23505", "used_key_pkey", "not_owner;"},
    {call_add_at_end, "changes webhook_add 562/862: 'https://u' 's' null null null 'admin:1'", RLOCK_REFUSED,
     "23514", "webhook_count", "invalid;"},
    {call_add_at_end, "changes webhook_add 562/862: 'https://u' 's' null null null 'admin:1'", RLOCK_REFUSED,
     "23505", "webhook_pkey", "refused;"},
    {call_enable, "changes webhook_change 562/862: 3 1 4 5 'admin:1'", RLOCK_OK, "", NULL, "not_found;"},
    {call_disable, "changes webhook_change 562/862: 3 0 null null 'admin:1'", RLOCK_OK,
     "3 0 0 1 'u' 4 5 null null null;", NULL, "ok 3 0 0 1 u 4_5 0 - -;"},
    {call_remove, "changes webhook_remove 562/862: 3", RLOCK_OK, "3 0 0 1 'u' 4 5 null null null;", NULL,
     "ok 3 0 0 1 u 4_5 0 - -;"},
    {call_remove, "changes webhook_remove 562/862: 3", RLOCK_OK, "", NULL, "not_found;"},
};
/* clang-format on */

STORE_CASE(test_webhooks__are_changed)
{
    for (size_t i = 0; i < sizeof(change_rows) / sizeof(change_rows[0]); i++) {
        change_rows[i].call();
        store_flush(shop);
        ASSERT_SENT(change_rows[i].sent);
        fake_constraint = change_rows[i].constraint;
        fake_answer(change_rows[i].status, change_rows[i].answer);
        ASSERT_SAID(change_rows[i].said);
    }
}

static void on_deliveries(enum rlock_status status,
                          const struct webhook_delivery *deliveries, size_t count,
                          void *arg)
{
    assert_ptr_equal(arg, shop);
    SAY("%s", rlock_status_name(status));
    for (size_t i = 0; i < count; i++)
        SAY(" %lld %lld %lld '%s'", (long long)deliveries[i].event_id,
            (long long)deliveries[i].at_us, (long long)deliveries[i].duration_ms,
            deliveries[i].error);
    SAY(";");
}

STORE_CASE(test_read_deliveries__of_an_endpoint)
{
    static const char *const answers[] = {"4 5 6 null;7 8 9 'late';",
                                          "null null null null;", "", NULL};

    for (size_t i = 0; i < 4; i++) {
        store_read_deliveries(shop, 3, on_deliveries, shop);
        store_flush(shop);
        ASSERT_SENT("reads webhook_deliveries 251/1000: 3");
        fake_answer(answers[i] != NULL ? RLOCK_OK : RLOCK_IO, answers[i]);
    }
    ASSERT_SAID("ok 4 946684800000005 6 '' 7 946684800000008 9 'late';ok;not_found;io;");
}

int main(void)
{
    return cases_run(NULL, NULL);
}
