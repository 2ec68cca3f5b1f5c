/* api_problem.c - each problem with a fixed answer is rendered once. */
#include "app/api/api_problem.h"

#include "app/api/api_request.h"
#include "app/core/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBLEM_TYPE "application/problem+json"

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
