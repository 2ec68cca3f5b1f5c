/* api_ops.c - for operators: liveness, readiness, metrics, the contract itself. */
#include "app/api_routes.h"
#include "app/embed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void api_healthz(struct api *api, struct http_request *request, int64_t id)
{
    (void)id;
    api_answer_json(api, request, 200, strdup("{\"status\":\"alive\"}"), NULL);
}

/* An order may come to any loop: ready is who is ready in all. */
static bool is_up_everywhere(const struct api *api, size_t gauge_offset)
{
    for (size_t i = 0; i < api->options.all_metrics_count; i++) {
        const char *metrics = (const char *)api->options.all_metrics[i];

        if (atomic_load(
                (const _Atomic uint64_t *)(const void *)(metrics + gauge_offset)) == 0)
            return false;
    }
    return true;
}

void api_readyz(struct api *api, struct http_request *request, int64_t id)
{
    bool has_postgres = is_up_everywhere(api, offsetof(struct metrics, postgres_up));
    bool has_redis = is_up_everywhere(api, offsetof(struct metrics, redis_up));
    bool is_ready = has_postgres && (has_redis || api->options.bypass_locks);
    const char *redis = api->options.bypass_locks ? "bypassed" : "down";
    char body[160];

    (void)id;
    snprintf(
        body, sizeof(body),
        "{\"status\":\"%s\",\"dependencies\":{\"postgres\":\"%s\",\"redis\":\"%s\"}}",
        is_ready ? "ready" : "not_ready", has_postgres ? "up" : "down",
        has_redis ? "up" : redis);
    api_answer_json(api, request, is_ready ? 200 : 503, strdup(body), NULL);
}

void api_metrics(struct api *api, struct http_request *request, int64_t id)
{
    struct http_reply reply = {
        .status = 200, .content_type = "text/plain; version=0.0.4; charset=utf-8"};
    char *text = NULL;

    (void)id;
    reply.body_len =
        metrics_print(api->options.all_metrics, api->options.all_metrics_count, &text);
    reply.body = text;
    if (reply.body_len > 0)
        http_answer(request, &reply);
    else
        api_answer_problem(api, request, PROBLEM_OVERLOADED);
    free(text);
}

void api_openapi(struct api *api, struct http_request *request, int64_t id)
{
    const struct embedded *file = embedded_files;
    struct http_reply reply = {.status = 200, .content_type = "application/yaml"};

    (void)id;
    while (file->path != NULL && strcmp(file->path, "app/openapi.yaml") != 0)
        file++;
    if (file->path == NULL) {
        api_answer_problem(api, request, PROBLEM_NOT_FOUND);
        return;
    }
    reply.body = file->bytes;
    reply.body_len = (size_t)(file->end - file->bytes);
    http_answer(request, &reply);
}
