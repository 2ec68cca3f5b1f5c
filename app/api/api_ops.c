/* api_ops.c - for operators: liveness, readiness, metrics, the OpenAPI contract. */
#include "app/api/api_routes.h"
#include "app/core/embed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void api_read_healthz(struct api_request *request)
{
    api_answer_json(request, 200, strdup("{\"status\":\"alive\"}"), NULL);
}

static const char *postgres_word(const struct metrics_health *health)
{
    if (health->has_postgres)
        return "up";
    switch (health->postgres_failure) {
    case STATUS_INVALID:
        return "not_utf8";
    case STATUS_REFUSED:
        return "no_rights";
    default:
        return "down";
    }
}

void api_read_readyz(struct api_request *request)
{
    const struct api_options *options = &request->api->options;
    struct metrics_health health = metrics_health(
        options->all_metrics, options->all_metrics_count, options->bypass_locks);
    const char *redis = options->bypass_locks ? "bypassed" : "down";
    char body[160];

    snprintf(
        body, sizeof(body),
        "{\"status\":\"%s\",\"dependencies\":{\"postgres\":\"%s\",\"redis\":\"%s\"}}",
        health.is_ready ? "ready" : "not_ready", postgres_word(&health),
        health.has_redis ? "up" : redis);
    api_answer_json(request, health.is_ready ? 200 : 503, strdup(body), NULL);
}

void api_read_metrics(struct api_request *request)
{
    const struct api_options *options = &request->api->options;
    struct http_reply reply = {
        .status = 200, .content_type = "text/plain; version=0.0.4; charset=utf-8"};
    char *text = NULL;

    reply.body_len =
        metrics_print(options->all_metrics, options->all_metrics_count, &text);
    reply.body = text;
    if (reply.body_len > 0)
        http_answer(request->http, &reply);
    else
        api_answer_problem(request, PROBLEM_OVERLOADED);
    free(text);
}

void api_read_openapi(struct api_request *request)
{
    const struct embedded *file = embedded_files;
    struct http_reply reply = {.status = 200, .content_type = "application/yaml"};

    while (file->path != NULL && strcmp(file->path, "app/api/openapi.yaml") != 0)
        file++;
    if (file->path == NULL) {
        api_answer_problem(request, PROBLEM_NOT_FOUND);
        return;
    }
    reply.body = file->bytes;
    reply.body_len = (size_t)(file->end - file->bytes);
    http_answer(request->http, &reply);
}
