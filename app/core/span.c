/* span.c - the spans of a traced order, as log lines. */
#include "app/core/span.h"
#include "app/core/log.h"
#include "base/clock.h"
#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEX     "[0123456789abcdef]"
#define SAMPLED 1 /* a bit of the flags */

struct span span_begin(const char *fields)
{
    /* The request id comes first. It has no spaces, so it cannot contain this text. */
    static const char head[] = " traceparent=00-";
    const char *found = strstr(fields, head);
    struct span span = {.id = random_u64()};
    char flags[3];

    if (found == NULL ||
        sscanf(found + strlen(head), "%32" HEX "-%16" HEX "-%2" HEX, span.trace_id,
               span.parent_id, flags) != 3 ||
        !(strtoul(flags, NULL, 16) & SAMPLED))
        return (struct span){0};
    return span;
}

void span_log(const struct span *span, const char *part, int64_t began_us,
              int64_t took_us)
{
    char id[17], parent_id[17];
    int64_t start_us;

    if (span->id == 0)
        return;
    start_us = clock_real_us() - (clock_mono_us() - began_us);
    snprintf(id, sizeof(id), "%016" PRIx64, part == NULL ? span->id : random_u64());
    snprintf(parent_id, sizeof(parent_id), "%016" PRIx64, span->id);
    log_event(LOG_INFO, "span",
              "trace_id=%s span_id=%s parent_id=%s name=%s start_us=%" PRId64
              " duration_us=%" PRId64,
              span->trace_id, id, part == NULL ? span->parent_id : parent_id,
              part == NULL ? "order" : part, start_us, took_us);
}
