/*
 * span.h - the spans of a traced order, as log lines. A collector turns these lines into
 * OpenTelemetry spans.
 */
#ifndef SPAN_H
#define SPAN_H

#include <stdbool.h>
#include <stdint.h>

/** The span of a whole order. If all fields are zero, the order is not traced. */
struct span {
    char trace_id[33];
    char parent_id[17]; /* the client's span */
    uint64_t id;
};

/** Begin the span of a request. `fields` is the text of http_trace(). The request is traced if the
 *  text has a sampled traceparent of version 00.
 *  Source: W3C Trace Context, w3.org/TR/trace-context */
struct span span_begin(const char *fields);

/** Log a part of the order, or the whole order if `part` is NULL. Does nothing if the order is
 *  not traced.
 *  @began_us  by clock_mono_us() */
void span_log(const struct span *span, const char *part, int64_t began_us,
              int64_t took_us);

#endif
