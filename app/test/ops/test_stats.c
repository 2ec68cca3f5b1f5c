/* test_stats.c - what is written to and read from Redis, with a fake connection and clock. */
#include "app/core/text.h"
#include "app/ops/stats.h"
#include "app/test/simulated_time.h"
#include "test/case_list.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COMMANDS_MAX 4
#define SECOND_US    INT64_C(1000000)
#define NOTHING      "no text"

/* The clock starts at 1700000000000 ms. Entries of the last ten minutes are kept. */
#define XADD(oldest_ms) "XADD seckill:stats MINID ~ " oldest_ms " * h/PID {stats};"
#define EXPIRE          "EXPIRE seckill:stats 3600;"
#define ANSWER(now_ms, is_shared, items)                                                 \
    "{\"now_ms\":" now_ms ",\"is_shared\":" is_shared ",\"bounds\":0,\"items\":[" items  \
    "]}"
#define OWN(now_ms) ANSWER(now_ms, "false", "[\"" now_ms "-0\",\"h/PID\",{stats}]")

/* -- fakes -- */

static struct {
    bool is_down;
    enum rlock_status refusal;
    bool has_no_document, has_no_end;
    const char *host;
    int host_result;
    int64_t noted_ms;
    char sent[1000];
    size_t count;
    struct pending {
        struct redis_command *command;
        redis_command_cb done;
    } pending[COMMANDS_MAX];
} fake;

static char conn_mark, metrics_mark;
static struct redis_conn *const the_conn = (struct redis_conn *)(void *)&conn_mark;
static const struct all_metrics *const the_metrics = (void *)&metrics_mark;

bool redis_conn_is_up(const struct redis_conn *conn)
{
    assert_ptr_equal(conn, the_conn);
    return !fake.is_down;
}

enum rlock_status redis_conn_words(struct redis_conn *conn, struct redis_command *command,
                                   redis_command_cb done, const char *const *words)
{
    assert_ptr_equal(conn, the_conn);
    for (size_t i = 0; words[i] != NULL; i++) {
        size_t len = strlen(fake.sent);

        snprintf(fake.sent + len, sizeof(fake.sent) - len, "%s%s", words[i],
                 words[i + 1] != NULL ? " " : ";");
    }
    if (fake.refusal != RLOCK_OK)
        return fake.refusal;
    ASSERT_NUMBER(fake.count, <, COMMANDS_MAX);
    fake.pending[fake.count++] = (struct pending){command, done};
    return RLOCK_OK;
}

void metrics_print_stats(FILE *out, const struct all_metrics *all)
{
    assert_ptr_equal(all, the_metrics);
    fputs("{stats}", out);
}

void metrics_note_conditions(const struct all_metrics *all, int64_t now_ms)
{
    assert_ptr_equal(all, the_metrics);
    fake.noted_ms = now_ms;
}

void metrics_print_bounds(FILE *out)
{
    fputs("\"bounds\":0", out);
}

bool text_document_begin(struct text_document *document)
{
    if (fake.has_no_document)
        return false;
    document->out = open_memstream(&document->text, &document->len);
    return document->out != NULL;
}

char *text_document_end(struct text_document *document)
{
    fclose(document->out);
    if (!fake.has_no_end)
        return document->text;
    free(document->text);
    return NULL;
}

/* Fills `name` as Linux does: a name that fills the whole buffer has no NUL. */
int gethostname(char *name, size_t len)
{
    ASSERT_NUMBER(len, ==, 63);
    strncpy(name, fake.host, len);
    return fake.host_result;
}

/* -- the fixture -- */

static uv_loop_t loop;
static struct stats *stats;

static int open_with(bool is_publisher, const char *host, int host_result)
{
    struct stats_options options = {.loop = &loop,
                                    .conn = the_conn,
                                    .all_metrics = the_metrics,
                                    .is_publisher = is_publisher};

    memset(&fake, 0, sizeof(fake));
    fake.host = host;
    fake.host_result = host_result;
    simulated_time_reset();
    uv_loop_init(&loop);
    stats = stats_open(&options);
    return stats == NULL;
}

static int open_stats(void **state UNUSED)
{
    return open_with(true, "h", 0);
}

static int close_stats(void **state UNUSED)
{
    stats_close(stats);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

#define CASE(name) DEFINE_CASE(name, name, open_stats, close_stats, NULL)

static void turn(void)
{
}

static void answer(enum rlock_status status, redisReply *reply)
{
    struct pending oldest = fake.pending[0];

    ASSERT_NUMBER(fake.count, >, 0);
    fake.count--;
    memmove(fake.pending, fake.pending + 1, fake.count * sizeof(oldest));
    oldest.done(oldest.command, status, (const struct redis_reply *)(const void *)reply);
}

/* Asserts that a text is `wanted`, in which "PID" stands for the id of this process. */
static void assert_text(const char *found, const char *wanted)
{
    char text[1000];
    const char *pid = strstr(wanted, "/PID");

    if (pid == NULL)
        snprintf(text, sizeof(text), "%s", wanted);
    else
        snprintf(text, sizeof(text), "%.*s/%d%s", (int)(pid - wanted), wanted,
                 (int)getpid(), pid + strlen("/PID"));
    if (strcmp(found, text) != 0)
        fail_msg("expected \"%s\", got \"%s\"", text, found);
}

static void assert_sent_after(int64_t us, const char *wanted)
{
    fake.sent[0] = '\0';
    simulated_time_pass_us(us, turn);
    assert_text(fake.sent, wanted);
}

static char *read_text;
static unsigned reads;

static void on_read(struct stats_read *read UNUSED, char *text)
{
    read_text = text;
    reads++;
}

static void assert_read(enum rlock_status status, redisReply *reply, const char *wanted)
{
    struct stats_read read;

    reads = 0;
    assert_int_equal(stats_read(stats, "", &read, on_read), RLOCK_OK);
    ASSERT_NUMBER(reads, ==, 0);
    answer(status, reply);
    ASSERT_NUMBER(reads, ==, 1);
    assert_text(read_text != NULL ? read_text : NOTHING,
                wanted != NULL ? wanted : NOTHING);
    free(read_text);
}

/* -- writes -- */

CASE(test_stats__are_written_each_second)
{
    assert_sent_after(SECOND_US - 1, "");
    assert_sent_after(1, XADD("1699999401000") EXPIRE);
    assert_sent_after(SECOND_US, "");
    answer(RLOCK_TIMEOUT, NULL);
    assert_sent_after(SECOND_US, "");
    answer(RLOCK_OK, NULL);
    assert_sent_after(SECOND_US, XADD("1699999404000"));
    answer(RLOCK_OK, NULL);
}

CASE(test_stats__expire_an_hour_after_one_of_60_writes)
{
    for (int i = 0; i <= 120; i++) {
        fake.sent[0] = '\0';
        simulated_time_pass_us(SECOND_US, turn);
        if ((strstr(fake.sent, EXPIRE) != NULL) != (i % 60 == 0))
            fail_msg("write %d of 0 to 120: expected EXPIRE with 0, 60 and 120, got %s",
                     i, fake.sent);
        while (fake.count > 0)
            answer(RLOCK_OK, NULL);
    }
}

CASE(test_stats__are_not_written_without_redis_or_memory)
{
    fake.is_down = true;
    assert_sent_after(SECOND_US, "");
    ASSERT_NUMBER(fake.noted_ms, ==, 1700000001000);
    fake.is_down = false;
    fake.has_no_document = true;
    assert_sent_after(SECOND_US, "");
    fake.has_no_document = false;
    fake.has_no_end = true;
    assert_sent_after(SECOND_US, "");
    fake.has_no_end = false;
    fake.refusal = RLOCK_NO_MEMORY;
    assert_sent_after(SECOND_US, XADD("1699999404000") EXPIRE);
    assert_sent_after(SECOND_US, XADD("1699999405000"));
}

CASE(test_stats__are_written_by_a_publisher_only)
{
    close_stats(state);
    open_with(false, "h", 0);
    assert_sent_after(10 * SECOND_US, "");
    stats_close(NULL);
}

/* -- reads -- */

CASE(test_stats_read__asks_for_what_follows)
{
    static const char newest[] = "18446744073709551615-18446744073709551615";
    struct stats_read read;

    fake.refusal = RLOCK_DOWN;
    assert_int_equal(stats_read(stats, "", &read, on_read), RLOCK_DOWN);
    assert_text(fake.sent, "XRANGE seckill:stats 1699999400000 + COUNT 6000;");
    fake.sent[0] = '\0';
    assert_int_equal(stats_read(stats, newest, &read, on_read), RLOCK_DOWN);
    assert_text(fake.sent, "XRANGE seckill:stats (18446744073709551615-"
                           "18446744073709551615 + COUNT 6000;");
}

static redisReply text_reply(const char *text)
{
    return (redisReply){.type = REDIS_REPLY_STRING, .str = (char *)text};
}

static redisReply array_reply(redisReply **element, size_t count)
{
    return (redisReply){.type = REDIS_REPLY_ARRAY, .element = element, .elements = count};
}

CASE(test_stats_read__answers_the_entries)
{
    redisReply nil = {.type = REDIS_REPLY_NIL}, id = text_reply("5-1"),
               instance = text_reply("a/1"), text = text_reply("{}");
    redisReply *whole[] = {&instance, &text}, *part[] = {&instance, &nil};
    redisReply *headless[] = {&nil, &text};
    redisReply fields[] = {array_reply(whole, 2), array_reply(part, 2),
                           array_reply(headless, 2)};
    redisReply *first[] = {&id, &fields[0]}, *second[] = {&nil, &fields[0]};
    redisReply *third[] = {&id, &fields[1]}, *fourth[] = {&id, &fields[2]};
    redisReply entries[] = {array_reply(first, 2), array_reply(second, 2),
                            array_reply(third, 2), array_reply(fourth, 2)};
    redisReply *all[] = {&entries[0], &entries[1], &entries[2], &entries[3], &entries[0]};
    redisReply stream = array_reply(all, 5);

    assert_read(
        RLOCK_OK, &stream,
        ANSWER("1700000000000", "true", "[\"5-1\",\"a/1\",{}],[\"5-1\",\"a/1\",{}]"));
    stream = array_reply(all, 0);
    assert_read(RLOCK_OK, &stream, ANSWER("1700000000000", "true", ""));
}

CASE(test_stats_read__answers_own_stats_without_redis)
{
    simulated_us += 2 * SECOND_US;
    assert_read(RLOCK_TIMEOUT, NULL, OWN("1700000002000"));
}

CASE(test_stats_read__answers_nothing_without_memory)
{
    redisReply stream = array_reply(NULL, 0);

    fake.has_no_document = true;
    assert_read(RLOCK_OK, &stream, NULL);
    assert_read(RLOCK_IO, NULL, NULL);
    fake.has_no_document = false;
    fake.has_no_end = true;
    assert_read(RLOCK_OK, &stream, NULL);
    assert_read(RLOCK_IO, NULL, NULL);
}

/* -- names -- */

#define HOST_63 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"

/* A name that is unknown, or that JSON would have to escape, is replaced by "instance". */
CASE(test_stats__name_the_host_and_process)
{
    static const struct {
        const char *host;
        int result;
        const char *instance;
    } rows[] = {
        {"shop-1", 0, "shop-1"}, {HOST_63, 0, HOST_63},     {"a\"b", 0, "instance"},
        {"a\\b", 0, "instance"}, {"wrong", -1, "instance"}, {"", 0, "instance"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char wanted[400], *own;

        close_stats(state);
        open_with(false, rows[i].host, rows[i].result);
        snprintf(
            wanted, sizeof(wanted),
            ANSWER("1700000000000", "false", "[\"1700000000000-0\",\"%s/PID\",{stats}]"),
            rows[i].instance);
        own = stats_print_own(stats);
        assert_text(own, wanted);
        free(own);
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
