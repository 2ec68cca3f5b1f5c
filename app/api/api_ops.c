/* api_ops.c - for operators: liveness, readiness, metrics, the contract itself. */
#include "app/api/api_routes.h"
#include "app/core/embed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void api_healthz(struct api *api, struct http_request *request, int64_t id)
{
    (void)id;
    api_answer_json(api, request, 200, strdup("{\"status\":\"alive\"}"), NULL);
}

void api_readyz(struct api *api, struct http_request *request, int64_t id)
{
    struct metrics_health health =
        metrics_health(api->options.all_metrics, api->options.all_metrics_count,
                       api->options.bypass_locks);
    const char *redis = api->options.bypass_locks ? "bypassed" : "down";
    char body[160];

    (void)id;
    snprintf(
        body, sizeof(body),
        "{\"status\":\"%s\",\"dependencies\":{\"postgres\":\"%s\",\"redis\":\"%s\"}}",
        health.is_ready ? "ready" : "not_ready", health.has_postgres ? "up" : "down",
        health.has_redis ? "up" : redis);
    api_answer_json(api, request, health.is_ready ? 200 : 503, strdup(body), NULL);
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
    while (file->path != NULL && strcmp(file->path, "app/api/openapi.yaml") != 0)
        file++;
    if (file->path == NULL) {
        api_answer_problem(api, request, PROBLEM_NOT_FOUND);
        return;
    }
    reply.body = file->bytes;
    reply.body_len = (size_t)(file->end - file->bytes);
    http_answer(request, &reply);
}
