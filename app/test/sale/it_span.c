/* it_span.c - the spans of a traced order, in the log. */
#include "app/test/fixture.h"

#include <stdlib.h>
#include <string.h>

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

static struct service *service;

static int setup(void **state)
{
    service = fixture_begin_group(state, NULL);
    return 0;
}

/* The log of the service; the caller frees it. */
static char *read_log(void)
{
    FILE *file = fopen(service->log_path, "re");
    char *text = NULL;
    size_t size = 0;

    assert_non_null(file);
    if (getdelim(&text, &size, '\0', file) < 0)
        text[0] = '\0';
    fclose(file);
    return text;
}

/* The line of a span of TRACE in `log`; NULL: none. */
static const char *find_span(const char *log, const char *name)
{
    char part[40];

    snprintf(part, sizeof(part), " name=%s start_us=", name);
    for (const char *line = strstr(log, "event=span trace_id=" TRACE); line != NULL;
         line = strstr(line + 1, "event=span trace_id=" TRACE)) {
        const char *found = strstr(line, part);

        if (found != NULL && memchr(line, '\n', (size_t)(found - line)) == NULL)
            return line;
    }
    return NULL;
}

static bool is_whole_order_logged(void *arg UNUSED)
{
    char *log = read_log();
    bool is_found = find_span(log, "order") != NULL;

    free(log);
    return is_found;
}

static void order_with(const char *flags, const char *voucher_id, int64_t user_id)
{
    char headers[120];

    snprintf(headers, sizeof(headers), "traceparent: 00-" TRACE "-" PARENT "-%s\r\n",
             flags);
    EXPECT(request_with(service, shopper(user_id), headers, NULL,
                        "POST /v1/vouchers/%s/orders", voucher_id),
           201, NULL);
}

static int64_t number_after(const char *line, const char *name)
{
    return strtoll(strstr(line, name) + strlen(name), NULL, 10);
}

/* Checks that the span of a part lies within the span of the order and names it as its parent. */
static void check_part(const char *log, const char *name, const char *order)
{
    const char *span = find_span(log, name);
    const char *id = strstr(order, "span_id=") + strlen("span_id=");
    int64_t order_start_us = number_after(order, "start_us=");
    int64_t order_us = number_after(order, "duration_us=");
    int64_t start_us, part_us;

    assert_non_null(span);
    start_us = number_after(span, "start_us=");
    part_us = number_after(span, "duration_us=");
    assert_memory_equal(strstr(span, "parent_id=") + strlen("parent_id="), id, 16);
    assert_memory_not_equal(strstr(span, "span_id=") + strlen("span_id="), id, 16);
    ASSERT_BETWEEN(part_us, 0, order_us);
    /* The starts may differ: the offset between the two clocks is read again for each span. */
    assert_true(start_us >= order_start_us - 1000000);
}

static void test_span__of_each_stage_if_the_trace_is_sampled(void **state UNUSED)
{
    static const char *const parts[] = {"lock", "queue", "commit", "unlock"};
    char id[ID_SIZE];
    const char *order;
    char *log;

    make_voucher(service, &(struct sale){.stock = 10}, id);
    order_with("00", id, 1);
    order_with("01", id, 2);
    AWAIT(is_whole_order_logged, NULL);
    log = read_log();
    order = find_span(log, "order");
    assert_non_null(strstr(order, " parent_id=" PARENT " name=order "));
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        check_part(log, parts[i], order);
    assert_null(find_span(order + 1, "order")); /* the other order is not sampled */
    free(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_span__of_each_stage_if_the_trace_is_sampled),
    };

    return cmocka_run_group_tests(tests, setup, fixture_end_group);
}
