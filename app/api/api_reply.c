/* api_reply.c - problems and replies; what requests bring, checked. */
#include "app/api/api_reply.h"

#include "app/core/log.h"
#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PROBLEM_TYPE  "application/problem+json"
#define LIMIT_DEFAULT 20
#define LIMIT_MAX     100

/* -- problems -- */

static const struct problem_row {
    unsigned status;
    unsigned retry_after_s;
    const char *code, *title, *detail;
} problem_rows[] = {
#define X(word, status, code, retry_after_s, title, detail)                              \
    {status, retry_after_s, code, title, detail},
    API_PROBLEMS(X)
#undef X
};

static void add_header(struct http_reply *reply, const char *name, const char *value)
{
    reply->headers[reply->header_count++] =
        (struct http_reply_header){.name = name, .value = value};
}

/* The caller frees `*ret_text` when the reply was used. */
static bool render(const struct json_problem *problem, struct http_reply *ret_reply,
                   char **ret_text)
{
    char *text = json_print_problem(problem);

    if (text == NULL)
        return false;
    *ret_reply = (struct http_reply){.status = problem->status,
                                     .content_type = PROBLEM_TYPE,
                                     .body = text,
                                     .body_len = strlen(text)};
    *ret_text = text;
    return true;
}

static struct http_page *render_page(const struct json_problem *problem,
                                     unsigned retry_after_s)
{
    struct http_reply reply;
    struct http_page *page;
    char seconds[12];
    char *text;

    if (!render(problem, &reply, &text))
        return NULL;
    snprintf(seconds, sizeof(seconds), "%u", retry_after_s);
    if (retry_after_s > 0)
        add_header(&reply, "Retry-After", seconds);
    if (problem->status == 401)
        add_header(&reply, "WWW-Authenticate", "Bearer");
    page = http_page_create(&reply);
    free(text);
    return page;
}

bool api_pages_create(struct api *api)
{
    for (int i = 0; i < PROBLEM_COUNT; i++) {
        const struct problem_row *row = &problem_rows[i];
        struct json_problem problem = {.status = row->status,
                                       .code = row->code,
                                       .title = row->title,
                                       .detail = row->detail};

        api->problems[i] = render_page(&problem, row->retry_after_s);
        if (api->problems[i] == NULL)
            return false;
    }
    return true;
}

void api_pages_free(struct api *api)
{
    for (int i = 0; i < PROBLEM_COUNT; i++)
        http_page_free(api->problems[i]);
    for (int i = 0; i < API_OPENING_PAGES; i++)
        http_page_free(api->opening[i]);
    for (int i = 0; i < API_WEB_FILES; i++) {
        http_page_free(api->web[i]);
        http_page_free(api->web_unchanged[i]);
    }
}

void api_answer_problem(struct api *api, struct http_request *request,
                        enum api_problem problem)
{
    http_answer_page(request, api->problems[problem]);
}

static void answer_rendered(struct api *api, struct http_request *request,
                            const struct json_problem *problem, const char *header,
                            const char *value)
{
    struct http_reply reply;
    char *text;

    if (!render(problem, &reply, &text)) {
        api_answer_problem(api, request, PROBLEM_OVERLOADED);
        return;
    }
    if (header != NULL)
        add_header(&reply, header, value);
    http_answer(request, &reply);
    free(text);
}

void api_answer_bad_request(struct api *api, struct http_request *request,
                            const char *detail)
{
    const struct json_problem problem = {
        .status = 400, .code = "bad_request", .title = "Bad request", .detail = detail};

    answer_rendered(api, request, &problem, NULL, NULL);
}

void api_answer_invalid(struct api *api, struct http_request *request,
                        const struct json_errors *errors)
{
    const struct json_problem problem = {.status = 422,
                                         .code = "invalid",
                                         .title = "Invalid",
                                         .detail = "Validation failed.",
                                         .errors = errors};

    answer_rendered(api, request, &problem, NULL, NULL);
}

void api_answer_already_ordered(struct api *api, struct http_request *request,
                                int64_t order_id)
{
    const struct json_problem problem = {
        .status = 409,
        .code = "already_ordered",
        .title = "Already ordered",
        .detail = "The shopper has reached the order limit of this voucher.",
        .order_id = order_id};

    answer_rendered(api, request, &problem, NULL, NULL);
}

static int64_t whole_seconds(int64_t wait_us)
{
    return wait_us > 0 ? (wait_us + 999999) / 1000000 : 1;
}

void api_answer_not_started(struct api *api, struct http_request *request,
                            int64_t wait_us)
{
    static const struct json_problem problem = {
        .status = 409,
        .code = "not_started",
        .title = "Not started",
        .detail = "The sale of this voucher has not started yet."};
    int64_t wait_s = whole_seconds(wait_us);
    char seconds[24];

    if (wait_s < API_OPENING_PAGES) {
        struct http_page **page = &api->opening[wait_s];

        if (*page == NULL)
            *page = render_page(&problem, (unsigned)wait_s);
        if (*page != NULL) {
            http_answer_page(request, *page);
            return;
        }
    }
    snprintf(seconds, sizeof(seconds), "%" PRId64, wait_s);
    answer_rendered(api, request, &problem, "Retry-After", seconds);
}

/* The headers are those of draft-ietf-httpapi-ratelimit-headers-10. */
void api_answer_rate_limited(struct api *api, struct http_request *request,
                             const char *name, const struct limiter *limiter,
                             int64_t wait_us)
{
    static const struct json_problem problem = {.status = 429,
                                                .code = "rate_limited",
                                                .title = "Too many requests",
                                                .detail = "Rate limit exceeded."};
    char seconds[24], policy[64], limit[64];
    struct http_reply reply;
    char *text;

    if (!render(&problem, &reply, &text)) {
        api_answer_problem(api, request, PROBLEM_OVERLOADED);
        return;
    }
    snprintf(seconds, sizeof(seconds), "%" PRId64, whole_seconds(wait_us));
    snprintf(policy, sizeof(policy), "\"%s\";q=%" PRId64 ";w=%d", name,
             limiter_rate_per_s(limiter) * LIMITER_BURST_FACTOR, LIMITER_BURST_FACTOR);
    snprintf(limit, sizeof(limit), "\"%s\";r=0;t=%s", name, seconds);
    add_header(&reply, "Retry-After", seconds);
    add_header(&reply, "RateLimit-Policy", policy);
    add_header(&reply, "RateLimit", limit);
    http_answer(request, &reply);
    free(text);
}

void api_answer_allow(struct api *api, struct http_request *request, const char *allow)
{
    static const struct json_problem problem = {
        .status = 405,
        .code = "method_not_allowed",
        .title = "Method not allowed",
        .detail = "The Allow header lists the permitted methods."};
    struct http_reply reply = {.status = 204};

    if (http_method(request) != HTTP_OPTIONS) {
        answer_rendered(api, request, &problem, "Allow", allow);
        return;
    }
    add_header(&reply, "Allow", allow);
    http_answer(request, &reply);
}

static void log_failed(struct http_request *request, enum status status)
{
    char path[256];

    snprintf(path, sizeof(path), "%s", http_path(request));
    log_event(LOG_WARN, "request_failed", "%s path=\"%s\" status=%s", http_trace(request),
              log_plain(path), status_name(status));
}

void api_answer_failure(struct api *api, struct http_request *request, enum status status,
                        bool was_write)
{
    enum api_problem problem = PROBLEM_UNAVAILABLE;

    if (status == STATUS_REFUSED || (was_write && status != STATUS_NOT_FOUND))
        log_failed(request, status);
    if (status == STATUS_NOT_FOUND)
        problem = PROBLEM_NOT_FOUND;
    else if (status == STATUS_REFUSED)
        problem = PROBLEM_INTERNAL;
    else if (was_write && (status == STATUS_IO || status == STATUS_TIMEOUT))
        problem = PROBLEM_OUTCOME_UNKNOWN;
    api_answer_problem(api, request, problem);
}

void api_answer_json(struct api *api, struct http_request *request, unsigned status,
                     char *text, const char *location)
{
    struct http_reply reply = {
        .status = status, .content_type = "application/json", .body = text};

    if (text == NULL) {
        api_answer_problem(api, request, PROBLEM_OVERLOADED);
        return;
    }
    reply.body_len = strlen(text);
    if (location != NULL)
        add_header(&reply, "Location", location);
    http_answer(request, &reply);
    free(text);
}

bool api_is_full(const struct api *api, const struct http_request *request)
{
    return http_waiting(request) > api->options.queue_max;
}

/* -- what requests bring -- */

/* What is known of who asks; lives in the request's note. */
struct caller {
    struct revoked_question question;
    struct api *api;
    struct http_request *request;
    api_handler handle;
    int64_t id;
    int64_t begun_us;
    struct identity identity;
    bool is_known;
    bool is_cleared; /* of having been revoked */
};

static struct caller *caller_of(struct http_request *request)
{
    static_assert(sizeof(struct caller) <= HTTP_NOTE_BYTES, "a caller outgrew its place");
    return http_note(request);
}

void api_begin(struct api *api, struct http_request *request, api_handler handle,
               int64_t id)
{
    struct caller *caller = caller_of(request);

    caller->api = api;
    caller->request = request;
    caller->handle = handle;
    caller->id = id;
    caller->begun_us = clock_mono_us();
    handle(api, request, id);
}

int64_t api_begun_us(struct http_request *request)
{
    return caller_of(request)->begun_us;
}

static void on_revoked_known(struct revoked_question *question, enum status status)
{
    struct caller *caller = list_item(question, struct caller, question);
    struct api *api = caller->api;

    if (status == STATUS_REFUSED) {
        api_answer_problem(api, caller->request, PROBLEM_UNAUTHENTICATED);
    } else if (status != STATUS_OK && !api->options.bypass_locks) {
        api_answer_problem(api, caller->request, PROBLEM_UNAVAILABLE);
    } else {
        caller->is_cleared = true;
        caller->handle(api, caller->request, caller->id);
    }
}

/* False: answered, or will be. */
static bool is_cleared(struct api *api, struct caller *caller)
{
    if (caller->is_cleared || caller->identity.jti[0] == '\0')
        return true;
    if (revoked_ask(api->options.revoked, caller->identity.jti, &caller->question,
                    on_revoked_known) == STATUS_OK)
        return false;
    if (!api->options.bypass_locks)
        api_answer_problem(api, caller->request, PROBLEM_UNAVAILABLE);
    return api->options.bypass_locks;
}

static bool read_token(struct api *api, struct http_request *request,
                       struct identity *ret_identity)
{
    bool twice;
    struct text authorization = http_header(request, "Authorization", &twice);

    if (twice) {
        api_answer_bad_request(api, request, "Authorization must not be repeated.");
        return false;
    }
    if (authorization.bytes != NULL &&
        auth_check(api->options.auth, authorization, clock_real_us() / 1000000,
                   ret_identity) == STATUS_OK)
        return true;
    api_answer_problem(api, request, PROBLEM_UNAUTHENTICATED);
    return false;
}

/* Shoppers only: one cashier speaks for all who pay. */
static bool is_shopper_limited(struct api *api, struct http_request *request,
                               const struct identity *identity)
{
    struct limiter *limiter = api->options.user_limiter;
    int64_t wait_us = 0;

    if (limiter != NULL && identity->role == AUTH_SHOPPER)
        wait_us = limiter_take(limiter, (uint64_t)identity->user_id, clock_mono_us());
    if (wait_us > 0)
        api_answer_rate_limited(api, request, "shopper", limiter, wait_us);
    return wait_us > 0;
}

bool api_identify(struct api *api, struct http_request *request,
                  struct identity *ret_identity)
{
    struct caller *caller = caller_of(request);

    if (!caller->is_known) {
        if (!read_token(api, request, &caller->identity) ||
            is_shopper_limited(api, request, &caller->identity))
            return false;
        caller->is_known = true;
    }
    if (!is_cleared(api, caller))
        return false;
    *ret_identity = caller->identity;
    return true;
}

bool api_identify_as(struct api *api, struct http_request *request, enum auth_role role,
                     struct identity *ret_identity)
{
    if (!api_identify(api, request, ret_identity))
        return false;
    if (ret_identity->role == role)
        return true;
    api_answer_problem(api, request, PROBLEM_FORBIDDEN);
    return false;
}

void api_name_actor(const struct identity *identity, char ret_actor[ACTOR_BYTES])
{
    static const char *const roles[] = {
        [AUTH_SHOPPER] = "shopper", [AUTH_PAYMENT] = "payment", [AUTH_ADMIN] = "admin"};

    snprintf(ret_actor, ACTOR_BYTES, "%s:%" PRId64, roles[identity->role],
             identity->user_id);
}

static bool is_json(struct text content_type)
{
    static const char json[] = "application/json";
    const size_t len = sizeof(json) - 1;

    return content_type.len >= len && strncasecmp(content_type.bytes, json, len) == 0 &&
           (content_type.len == len || content_type.bytes[len] == ';' ||
            content_type.bytes[len] == ' ');
}

bool api_read_body(struct api *api, struct http_request *request,
                   const struct json_field *fields, void *target,
                   struct json_document **ret_document)
{
    bool twice;
    struct text content_type = http_header(request, "Content-Type", &twice);
    struct json_document *document = NULL;
    struct json_errors errors;

    if (twice) {
        api_answer_bad_request(api, request, "Content-Type must not be repeated.");
        return false;
    }
    if (content_type.bytes == NULL || !is_json(content_type)) {
        api_answer_problem(api, request, PROBLEM_NOT_JSON);
        return false;
    }
    if (!json_read(http_body(request), fields, target, &document, &errors)) {
        api_answer_bad_request(
            api, request, "The body must be one JSON object without duplicate names.");
    } else if (errors.count > 0) {
        api_answer_invalid(api, request, &errors);
    } else {
        *ret_document = document;
        return true;
    }
    json_document_free(document);
    return false;
}

bool api_parse_id(const char *text, size_t len, int64_t *ret_id)
{
    int64_t id = 0;

    if (len == 0 || text[0] == '0')
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(id, 10, &id) ||
            __builtin_add_overflow(id, text[i] - '0', &id))
            return false;
    }
    *ret_id = id;
    return true;
}

static bool read_query(struct api *api, struct http_request *request, const char *name,
                       int64_t *ret_number)
{
    bool twice;
    struct text value = http_query(request, name, &twice);
    char detail[80];

    if (value.bytes == NULL ||
        (!twice && api_parse_id(value.bytes, value.len, ret_number)))
        return true;
    snprintf(detail, sizeof(detail), "%s must be one integer, 1 or greater.", name);
    api_answer_bad_request(api, request, detail);
    return false;
}

bool api_read_limit(struct api *api, struct http_request *request, unsigned *ret_limit)
{
    int64_t limit = LIMIT_DEFAULT;
    struct json_errors errors = {0};

    if (!read_query(api, request, "limit", &limit))
        return false;
    if (limit <= LIMIT_MAX) {
        *ret_limit = (unsigned)limit;
        return true;
    }
    json_errors_add(&errors, "limit", "must be 1 to 100");
    api_answer_invalid(api, request, &errors);
    return false;
}

bool api_read_query_id(struct api *api, struct http_request *request, const char *name,
                       int64_t *ret_id)
{
    *ret_id = 0;
    return read_query(api, request, name, ret_id);
}
