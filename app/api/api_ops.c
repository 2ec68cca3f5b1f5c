/* api_ops.c - routes for operators: liveness, readiness, metrics, the stats of the dashboard. */
#include "app/api/api_routes.h"
#include "app/ops/health.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void api_read_healthz(struct api_request *request)
{
    api_answer_json(request, 200, strdup("{\"status\":\"alive\"}"), NULL);
}

static const char *postgres_word(const struct health *health)
{
    if (health->has_postgres)
        return "up";
    switch (health->postgres_failure) {
#define X(failure, name)                                                                 \
    case failure:                                                                        \
        return name;
        METRICS_REFUSALS(X)
#undef X
    default:
        return "down";
    }
}

void api_read_readyz(struct api_request *request)
{
    const struct api_options *options = &request->api->options;
    struct health health = health_of(options->all_metrics, options->bypass_locks);
    const char *redis = health.has_redis        ? "up"
                        : health.has_locks      ? "degraded"
                        : options->bypass_locks ? "bypassed"
                                                : "down";
    char body[160];

    snprintf(
        body, sizeof(body),
        "{\"status\":\"%s\",\"dependencies\":{\"postgres\":\"%s\",\"redis\":\"%s\"}}",
        health.is_ready ? "ready" : "not_ready", postgres_word(&health), redis);
    api_answer_json(request, health.is_ready ? 200 : 503, strdup(body), NULL);
}

void api_read_metrics(struct api_request *request)
{
    struct http_reply reply = {
        .status = 200, .content_type = "text/plain; version=0.0.4; charset=utf-8"};
    struct text_document document;
    char *text = NULL;

    if (text_document_begin(&document)) {
        metrics_print(document.out, request->api->options.all_metrics);
        text = text_document_end(&document);
    }
    api_answer_text(request, &reply, text);
}

void api_read_debug_state(struct api_request *request)
{
    const struct api_options *options = &request->api->options;
    struct text_document document;
    size_t resident_bytes = 0;
    char *text = NULL;

    uv_resident_set_memory(&resident_bytes);
    if (text_document_begin(&document)) {
        fprintf(document.out,
                "{\"version\":\"" SECKILL_VERSION "\",\"pid\":%d,\"now_ms\":%" PRId64
                ",\"resident_kib\":%zu,\"workers\":",
                (int)getpid(), clock_real_us() / 1000, resident_bytes / 1024);
        metrics_print_loops(document.out, options->all_metrics);
        fputc('}', document.out);
        text = text_document_end(&document);
    }
    api_answer_json(request, 200, text, NULL);
}

/* Parses the id of an entry of the stats, "MILLISECONDS-NUMBER", as Redis numbers a stream. */
static bool parse_after(struct text after, char ret_after[STATS_ID_BYTES])
{
    static const char digits[] = "0123456789";
    size_t first;

    if (after.len >= STATS_ID_BYTES)
        return false;
    mempcpy(mempcpy(ret_after, after.bytes, after.len), "", 1);
    first = strspn(ret_after, digits);
    return first > 0 && ret_after[first] == '-' && ret_after[first + 1] != '\0' &&
           first + 1 + strspn(ret_after + first + 1, digits) == after.len;
}

static void ops_on_stats(struct stats_read *read, char *text)
{
    api_answer_json(list_item(read, struct api_request, stats), 200, text, NULL);
}

void api_read_stats(struct api_request *request)
{
    struct stats *stats = request->api->options.stats;
    char after[STATS_ID_BYTES] = "";
    bool is_repeated;
    struct text id = http_query(request->http, "after", &is_repeated);

    if (is_repeated || (id.bytes != NULL && !parse_after(id, after)))
        api_answer_bad_request(request, "after must be the id of an item.");
    else if (stats_read(stats, after, &request->stats, ops_on_stats) != RLOCK_OK)
        api_answer_json(request, 200, stats_print_own(stats), NULL);
}
