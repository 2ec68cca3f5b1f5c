/* test_span.c - which orders are traced, and the log line of a span. */
#include "app/core/log.h"
#include "app/core/span.h"
#include "base/clock.h"
#include "test/case_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACE   "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT  "00f067aa0ba902b7"
#define PARENTS "request_id=7 traceparent=00-" TRACE "-" PARENT

static char logged[300];

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    va_list arguments;

    assert_int_equal(level, LOG_INFO);
    assert_string_equal(event, "span");
    va_start(arguments, format);
    vsnprintf(logged, sizeof(logged), format, arguments);
    va_end(arguments);
}

int64_t clock_mono_us(void)
{
    return 5000;
}

int64_t clock_real_us(void)
{
    return 1700000000000000;
}

UNIT_CASE(test_span_begin__is_traced_if_it_is_sampled)
{
    static const struct {
        const char *fields;
        bool is_traced;
    } rows[] = {
        {PARENTS "-01", true},
        {PARENTS "-03", true},
        {PARENTS "-00", false},
        {PARENTS "-02", false},
        {PARENTS "-10", false},
        {"request_id=7 traceparent=01-" TRACE "-" PARENT "-01",
         false}, /* another version */
        {"request_id=traceparent=00-" TRACE "-" PARENT "-01", false},
        {"request_id=7 traceparent=00-" TRACE "-" PARENT, false},
        {"request_id=7", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct span span = span_begin(rows[i].fields);
        const char *trace_id = rows[i].is_traced ? TRACE : "";

        if ((span.id != 0) != rows[i].is_traced || strcmp(span.trace_id, trace_id) != 0)
            fail_msg("%s: expected the trace \"%s\", got \"%s\" with the id %" PRIx64,
                     rows[i].fields, trace_id, span.trace_id, span.id);
    }
}

UNIT_CASE(test_span_log__of_the_order_and_of_a_part)
{
    struct span span = span_begin(PARENTS "-01");
    char expected[300];
    const char *id;

    span_log(&span, NULL, 4000, 900);
    snprintf(expected, sizeof(expected),
             "trace_id=" TRACE " span_id=%016" PRIx64 " parent_id=" PARENT
             " name=order start_us=1699999999999000 duration_us=900",
             span.id);
    assert_string_equal(logged, expected);

    span_log(&span, "lock", 4500, 20);
    id = strstr(logged, "span_id=") + strlen("span_id=");
    assert_false(strtoull(id, NULL, 16) == span.id);
    snprintf(expected, sizeof(expected),
             "trace_id=" TRACE " span_id=%.16s parent_id=%016" PRIx64
             " name=lock start_us=1699999999999500 duration_us=20",
             id, span.id);
    assert_string_equal(logged, expected);
}

UNIT_CASE(test_span_log__writes_nothing_of_an_order_without_a_trace)
{
    const struct span none = {0};

    logged[0] = '\0';
    span_log(&none, NULL, 4000, 900);
    assert_string_equal(logged, "");
}

int main(void)
{
    return cases_run(NULL, NULL);
}
