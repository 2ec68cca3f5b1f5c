/* api_webhooks.c - the endpoints of webhooks, and their last deliveries. */
#include "app/api/api_routes.h"
#include "app/auth/signature.h"

#include <inttypes.h>
#include <stdio.h>

static void webhooks_on_states(enum rlock_status status,
                               const struct webhook_state *states, size_t count,
                               void *arg)
{
    struct api_request *request = arg;
    bool is_auditor = request->identity.role == AUTH_AUDITOR;

    if (status != RLOCK_OK)
        api_answer_failure(request, status, false);
    else
        api_answer_json(request, 200, json_print_webhooks(states, count, is_auditor),
                        NULL);
}

void api_list_webhooks(struct api_request *request)
{
    store_read_webhook_states(request->api->options.store, webhooks_on_states, request);
}

/* There are few endpoints, so one is read together with the others. */
static void webhooks_on_state(enum rlock_status status,
                              const struct webhook_state *states, size_t count, void *arg)
{
    struct api_request *request = arg;
    bool is_auditor = request->identity.role == AUTH_AUDITOR;
    size_t i = 0;

    while (i < count && states[i].id != request->id)
        i++;
    if (status != RLOCK_OK)
        api_answer_failure(request, status, false);
    else if (i == count)
        api_answer_problem(request, PROBLEM_NOT_FOUND);
    else
        api_answer_json(request, 200, json_print_endpoint(&states[i], is_auditor), NULL);
}

void api_read_webhook(struct api_request *request)
{
    store_read_webhook_states(request->api->options.store, webhooks_on_state, request);
}

/* -- change -- */

#define URL_MAX    2000
#define CURSOR_MAX 27 /* two numbers of at most 13 digits */

struct endpoint_fields {
    struct text url, cursor; /* bytes NULL: absent */
    int64_t is_enabled;
};
#define FIELD(name) offsetof(struct endpoint_fields, name)

/* Answers a change that failed. */
static void answer_unchanged(struct api_request *request, enum rlock_status status,
                             const char *field, const char *message)
{
    if (status == RLOCK_INVALID)
        api_answer_invalid_field(request, field, message);
    else if (status == RLOCK_NOT_OWNER)
        api_answer_key_used(request);
    else
        api_answer_failure(request, status, true);
}

static void webhooks_on_added(enum rlock_status status,
                              const struct webhook_state *states, size_t count UNUSED,
                              void *arg)
{
    struct api_request *request = arg;
    char location[48];

    if (status != RLOCK_OK) {
        answer_unchanged(request, status, "url",
                         "there are 64 endpoints, or cursor is beyond the last change");
        return;
    }
    snprintf(location, sizeof(location), "/v1/webhooks/%" PRId64, states->id);
    api_answer_json(request, 201, json_print_endpoint(states, false), location);
}

static void webhooks_on_changed(enum rlock_status status,
                                const struct webhook_state *states, size_t count UNUSED,
                                void *arg)
{
    if (status != RLOCK_OK)
        answer_unchanged(arg, status, "cursor", "is beyond the last change");
    else
        api_answer_json(arg, 200, json_print_endpoint(states, false), NULL);
}

static void webhooks_on_removed(enum rlock_status status,
                                const struct webhook_state *states UNUSED,
                                size_t count UNUSED, void *arg)
{
    struct api_request *request = arg;

    if (status != RLOCK_OK)
        api_answer_failure(request, status, true);
    else
        http_answer(request->http, &(struct http_reply){.status = 204});
}

/* Sets where an endpoint begins to get events, if the body has a cursor. False: the request was
   answered. */
static bool parse_cursor(struct api_request *request, struct text cursor,
                         struct feed_position *position, struct webhook_change *change)
{
    if (cursor.bytes == NULL)
        return true;
    change->position = position;
    if (api_parse_position(cursor, position))
        return true;
    api_answer_invalid_field(request, "cursor", "must be a next_cursor of /v1/events");
    return false;
}

void api_add_webhook(struct api_request *request)
{
    static const struct json_field table[] = {
        {"url", JSON_FIELD_TEXT, true, 1, URL_MAX, FIELD(url)},
        {"cursor", JSON_FIELD_TEXT, false, 3, CURSOR_MAX, FIELD(cursor)},
        {0}};
    char actor[ACTOR_BYTES], secret[SIGNATURE_SECRET_BYTES];
    struct webhook_change change = {.secret = secret, .author = {.actor = actor}};
    struct endpoint_fields fields = {0};
    struct feed_position position;

    if (!api_read_key(request, &change.author.key) ||
        !api_read_body(request, table, &fields) ||
        !parse_cursor(request, fields.cursor, &position, &change))
        return;
    if (!text_is_url(fields.url)) {
        api_answer_invalid_field(
            request, "url",
            "must begin with https:// and have at most 2000 visible ASCII characters");
        return;
    }
    if (!signature_make_secret(secret)) {
        api_answer_problem(request, PROBLEM_UNAVAILABLE);
        return;
    }
    change.url = fields.url;
    api_name_actor(request, actor);
    store_add_webhook(request->api->options.store, &change, webhooks_on_added, request);
}

static void change_webhook(struct api_request *request, const struct json_field *table)
{
    char actor[ACTOR_BYTES];
    struct webhook_change change = {.webhook_id = request->id,
                                    .author = {.actor = actor}};
    struct endpoint_fields fields = {.is_enabled = true};
    struct feed_position position;

    if (!api_read_body(request, table, &fields) ||
        !parse_cursor(request, fields.cursor, &position, &change))
        return;
    change.is_enabled = fields.is_enabled != 0;
    api_name_actor(request, actor);
    store_change_webhook(request->api->options.store, &change, webhooks_on_changed,
                         request);
}

void api_patch_webhook(struct api_request *request)
{
    static const struct json_field table[] = {
        {"enabled", JSON_FIELD_BOOLEAN, true, 0, 1, FIELD(is_enabled)}, {0}};

    change_webhook(request, table);
}

void api_replay_webhook(struct api_request *request)
{
    static const struct json_field table[] = {
        {"cursor", JSON_FIELD_TEXT, true, 3, CURSOR_MAX, FIELD(cursor)}, {0}};

    change_webhook(request, table);
}

void api_remove_webhook(struct api_request *request)
{
    store_remove_webhook(request->api->options.store, request->id, webhooks_on_removed,
                         request);
}

/* -- deliveries -- */

static void webhooks_on_deliveries(enum rlock_status status,
                                   const struct webhook_delivery *deliveries,
                                   size_t count, void *arg)
{
    if (status != RLOCK_OK)
        api_answer_failure(arg, status, false);
    else
        api_answer_json(arg, 200, json_print_deliveries(deliveries, count), NULL);
}

void api_list_deliveries(struct api_request *request)
{
    store_read_deliveries(request->api->options.store, request->id,
                          webhooks_on_deliveries, request);
}
