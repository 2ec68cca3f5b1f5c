/*
 * fake_conns.h - connections of a store that keep each query until the test answers it.
 *
 * A test program includes this file in one source only: it defines the functions of store_conn.h
 * and PQresultErrorField() in place of the real ones. said.h describes how parameters and rows are
 * written.
 */
#ifndef FAKE_CONNS_H
#define FAKE_CONNS_H

#include "app/core/embed.h"
#include "app/store/store_impl.h"
#include "app/test/store/said.h"

#define FAKE_CONNS_MAX   16
#define FAKE_QUERIES_MAX 8192

struct store_conn {
    struct store_conn_options options;
    struct store_session session;
    bool is_up;
    bool is_left, is_resting, has_rested, is_checked, is_flushed;
    const struct store_conn *leader;
    unsigned pending;
};

struct fake_query {
    struct store_conn *conn;
    struct store_query *query; /* NULL: the query was abandoned */
    enum statement statement;
    char words[WORDS_BYTES]; /* the parameters */
};

static struct store_conn fake_conns[FAKE_CONNS_MAX];
static size_t fake_opened;
static struct fake_query *fake_sent[FAKE_QUERIES_MAX];
static size_t fake_sent_count;
static bool fake_cannot_abandon;
static bool fake_probes;
static size_t fake_opened_max;
static const char *fake_sqlstate, *fake_constraint;

/* -- parameters as words -- */

static inline int64_t fake_int(const char *bytes, size_t len)
{
    int64_t value = 0;

    for (size_t i = 0; i < len; i++)
        value = (int64_t)((uint64_t)value << 8 | (unsigned char)bytes[i]);
    return len == 4 ? (int32_t)value : value;
}

static inline void fake_print_value(char *text, int64_t type, const char *bytes,
                                    int64_t len)
{
    if (len < 0)
        append(text, WORDS_BYTES, "null");
    else if (type == PARAMS_TEXT)
        append(text, WORDS_BYTES, "'%.*s'", (int)len, bytes);
    else
        append(text, WORDS_BYTES, "%lld", (long long)fake_int(bytes, (size_t)len));
}

static inline bool fake_is_array(const char *bytes, size_t len)
{
    return len >= 20 && fake_int(bytes, 4) == 1 && fake_int(bytes + 16, 4) == 1;
}

static inline void fake_print_array(char *text, const char *bytes, size_t len)
{
    int64_t type = fake_int(bytes + 8, 4), count = fake_int(bytes + 12, 4);
    size_t at = 20;

    ASSERT_NUMBER(fake_int(bytes + 4, 4), ==, type == PARAMS_TEXT);
    append(text, WORDS_BYTES, "{");
    for (int64_t i = 0; i < count; i++) {
        int64_t size = fake_int(bytes + at, 4);

        at += 4;
        if (type != PARAMS_TEXT)
            ASSERT_NUMBER(size, ==, type == PARAMS_BOOL ? 1 : 8);
        append(text, WORDS_BYTES, "%s", i > 0 ? "," : "");
        fake_print_value(text, type, bytes + at, size);
        at += size > 0 ? (size_t)size : 0;
    }
    append(text, WORDS_BYTES, "}");
    ASSERT_NUMBER(at, ==, len);
}

static inline void fake_print_params(const struct store_params *params,
                                     char text[WORDS_BYTES])
{
    text[0] = '\0';
    for (int i = 0; i < params->count; i++) {
        const char *bytes = params->bytes + params->offsets[i];
        size_t len = params->offsets[i + 1] - params->offsets[i];

        append(text, WORDS_BYTES, "%s", i > 0 ? " " : "");
        if (params->is_null[i])
            append(text, WORDS_BYTES, "null");
        else if (fake_is_array(bytes, len))
            fake_print_array(text, bytes, len);
        else
            fake_print_value(text, len == 8 ? PARAMS_INT64 : PARAMS_TEXT, bytes,
                             (int64_t)len);
    }
}

/* -- answers -- */

static inline const char *fake_role(const struct store_conn *conn)
{
    static const char *const names[] = {"main",   "reads", "changes", "slow changes",
                                        "expiry", "lists", "probe"};
    const struct store *store = conn->options.arg;
    unsigned role = 0;
    static char lane[16];

    while (store->conns[role] != conn)
        role++;
    if (role < ROLE_LANE)
        return names[role];
    snprintf(lane, sizeof(lane), "lane %u", role - ROLE_LANE);
    return lane;
}

static inline const char *fake_print_oldest(void)
{
    static char text[WORDS_BYTES + 200];
    const struct fake_query *sent = fake_sent_count > 0 ? fake_sent[0] : NULL;

    if (sent == NULL)
        return "nothing";
    snprintf(text, sizeof(text), "%s %s %u/%u: %s", fake_role(sent->conn),
             store_statements[sent->statement].name,
             sent->query != NULL ? sent->query->statement_ms : 0,
             sent->query != NULL ? sent->query->timeout_ms : 0, sent->words);
    return text;
}

/* Asserts that the oldest query is, for example, "reads read_voucher 251/1000: 7". 251 ms is the
   limit of the statement in Postgres, and 1000 ms is the limit of the answer. */
#define ASSERT_SENT(wanted) assert_string_equal(fake_print_oldest(), wanted)

static inline struct fake_query fake_take(size_t at)
{
    struct fake_query taken = *fake_sent[at];

    free(fake_sent[at]);
    fake_sent_count--;
    for (; at < fake_sent_count; at++)
        fake_sent[at] = fake_sent[at + 1];
    taken.conn->pending--;
    return taken;
}

/* Answers the oldest query. `rows` has the rows of the answer if the status is RLOCK_OK. Otherwise
   `rows` is an SQLSTATE or NULL. */
static inline void fake_answer(enum rlock_status status, const char *rows)
{
    struct rlock_err why = {.status = status, .text = "why"};
    struct fake_query sent;
    PGresult *result;

    ASSERT_NUMBER(fake_sent_count, >, 0);
    sent = fake_take(0);
    result = words_result(PGRES_TUPLES_OK, 1, status == RLOCK_OK ? rows : "");
    fake_sqlstate = status == RLOCK_OK ? NULL : rows;
    if (sent.query != NULL)
        sent.query->done(sent.query, status, result, status == RLOCK_OK ? NULL : &why);
    PQclear(result);
}

static inline void fake_end_queries(struct store_conn *conn, const struct rlock_err *why)
{
    for (size_t at = 0; at < fake_sent_count;) {
        struct fake_query sent;

        if (fake_sent[at]->conn != conn) {
            at++;
            continue;
        }
        sent = fake_take(at);
        if (sent.query != NULL)
            sent.query->done(sent.query, why->status, NULL, why);
        at = 0;
    }
}

static inline void fake_lose(struct store_conn *conn, enum rlock_status status)
{
    struct rlock_err why = {.status = status, .text = "lost"};
    bool was_up = conn->is_up;

    conn->is_up = false;
    conn->options.on_down(conn, was_up, &why, conn->options.arg);
    fake_end_queries(conn, &why);
}

static inline void fake_come_up(struct store_conn *conn)
{
    conn->is_up = true;
    conn->options.on_up(conn, conn->options.arg);
}

static inline void fake_reset(void)
{
    memset(fake_conns, 0, sizeof(fake_conns));
    fake_opened = fake_sent_count = 0;
    fake_cannot_abandon = fake_probes = false;
    fake_opened_max = FAKE_CONNS_MAX;
    fake_sqlstate = fake_constraint = NULL;
}

/* -- store_conn.h -- */

char *PQresultErrorField(const PGresult *result UNUSED, int field)
{
    const char *text = field == PG_DIAG_SQLSTATE          ? fake_sqlstate
                       : field == PG_DIAG_CONSTRAINT_NAME ? fake_constraint
                                                          : NULL;

    return (char *)(uintptr_t)text;
}

enum rlock_status store_conn_open(const struct store_conn_options *options,
                                  struct store_conn **ret_conn)
{
    if (fake_opened == fake_opened_max)
        return RLOCK_NO_MEMORY;
    *ret_conn = &fake_conns[fake_opened++];
    **ret_conn = (struct store_conn){.options = *options, .session = {.cells = 1}};
    return RLOCK_OK;
}

void store_conn_close(struct store_conn *conn, struct closing *owner UNUSED)
{
    fake_end_queries(conn,
                     &(struct rlock_err){.status = RLOCK_CANCELLED, .text = "closed"});
}

bool store_conn_is_up(const struct store_conn *conn)
{
    return conn->is_up;
}

const struct store_session *store_conn_session(const struct store_conn *conn)
{
    return &conn->session;
}

void store_conn_check(struct store_conn *conn)
{
    conn->is_checked = true;
}

void store_conn_leave(struct store_conn *conn, const struct rlock_err *why)
{
    assert_true(why->status == RLOCK_UNSAFE || why->status == RLOCK_NOT_OWNER);
    conn->is_left = true;
}

unsigned store_conn_pending(const struct store_conn *conn)
{
    return conn->pending;
}

void store_conn_rest(struct store_conn *conn)
{
    conn->is_resting = conn->has_rested = true;
}

void store_conn_follow(struct store_conn *conn, const struct store_conn *leader)
{
    conn->leader = leader;
    conn->is_resting = false;
}

static inline int fake_param_count(enum statement statement)
{
    const char *at = embedded_find(store_statements[statement].path)->bytes;
    int count = 0;

    while ((at = strchr(at, '$')) != NULL) {
        int number = (int)strtol(++at, NULL, 10);

        count = number > count ? number : count;
    }
    return count;
}

bool store_conn_send(struct store_conn *conn, struct store_query *query,
                     enum statement statement, const struct store_params *params)
{
    struct fake_query *sent;

    if (!conn->is_up || params->has_failed ||
        (statement == STATEMENT_PROBE && !fake_probes))
        return false;
    ASSERT_NUMBER(params->count, ==, fake_param_count(statement));
    assert_true(fake_sent_count < FAKE_QUERIES_MAX);
    sent = malloc(sizeof(*sent));
    assert_non_null(sent);
    sent->conn = conn;
    sent->query = query;
    sent->statement = statement;
    fake_print_params(params, sent->words);
    fake_sent[fake_sent_count++] = sent;
    conn->pending++;
    return true;
}

bool store_conn_abandon(struct store_conn *conn, struct store_query *query)
{
    for (size_t i = 0; i < fake_sent_count && !fake_cannot_abandon; i++) {
        if (fake_sent[i]->query == query) {
            assert_ptr_equal(fake_sent[i]->conn, conn);
            fake_sent[i]->query = NULL;
            return true;
        }
    }
    assert_true(fake_cannot_abandon);
    return false;
}

void store_conn_flush(struct store_conn *conn)
{
    conn->is_flushed = true;
}

#endif
