/* api_problem.c - answers with problems. An answer that does not vary is rendered once. */
#include "app/api/api_problem.h"

#include "app/core/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_STARTED_PAGES 64

struct api_problems {
    struct http_page *fixed[PROBLEM_COUNT];
    /* the index is the value of Retry-After in seconds; a page is rendered at its first use */
    struct http_page *not_started[NOT_STARTED_PAGES];
};

static const struct problem_row {
    unsigned retry_after_s;
    struct json_problem problem;
} rows[] = {
#define X(word, status, code, retry_after_s, title, detail)                              \
    {retry_after_s, {status, code, title, detail, 0, NULL}},
    API_PROBLEMS(X)
#undef X
};

/* -- rendering -- */

/* Sets the status and the type of `reply`, but not its headers. Returns the body, which the caller
   frees; NULL: out of memory. */
static char *render(const struct json_problem *problem, struct http_reply *reply)
{
    reply->status = problem->status;
    reply->content_type = "application/problem+json";
    return json_print_problem(problem);
}

static struct http_page *render_page(const struct json_problem *problem,
                                     unsigned retry_after_s)
{
    struct http_reply reply = {0};
    struct http_page *page = NULL;
    char seconds[12];
    char *text;

    snprintf(seconds, sizeof(seconds), "%u", retry_after_s);
    if (retry_after_s > 0)
        http_reply_add(&reply, "Retry-After", seconds);
    if (problem->status == 401)
        http_reply_add(&reply, "WWW-Authenticate", "Bearer");
    text = render(problem, &reply);
    if (text != NULL) {
        reply.body = text;
        reply.body_len = strlen(text);
        page = http_page_create(&reply);
    }
    free(text);
    return page;
}

struct api_problems *api_problems_create(void)
{
    struct api_problems *problems = calloc(1, sizeof(*problems));

    for (int i = 0; problems != NULL && i < PROBLEM_COUNT; i++) {
        problems->fixed[i] = render_page(&rows[i].problem, rows[i].retry_after_s);
        if (problems->fixed[i] == NULL) {
            api_problems_free(problems);
            return NULL;
        }
    }
    return problems;
}

void api_problems_free(struct api_problems *problems)
{
    if (problems == NULL)
        return;
    for (int i = 0; i < PROBLEM_COUNT; i++)
        http_page_free(problems->fixed[i]);
    for (int i = 0; i < NOT_STARTED_PAGES; i++)
        http_page_free(problems->not_started[i]);
    free(problems);
}

/* -- problems -- */

/* If the cell was split after the request was routed, the voucher that was not found may be in
   another cell. */
void api_answer_problem(struct api_request *request, enum api_problem problem)
{
    if (problem == PROBLEM_NOT_FOUND && api_is_foreign(request))
        problem = PROBLEM_MISDIRECTED;
    http_answer_page(request->http, request->api->problems->fixed[problem]);
}

/* Answers with the problem and with the headers that `reply` has already. */
static void answer_rendered(struct api_request *request,
                            const struct json_problem *problem, struct http_reply *reply)
{
    api_answer_text(request, reply, render(problem, reply));
}

void api_answer_bad_request(struct api_request *request, const char *detail)
{
    struct json_problem problem = rows[PROBLEM_BAD_REQUEST].problem;

    problem.detail = detail;
    answer_rendered(request, &problem, &(struct http_reply){0});
}

/* The name comes from the client, so it may be long, and may not be UTF-8. */
void api_answer_unknown_parameter(struct api_request *request, struct text name)
{
    char plain[65] = "", detail[100];

    for (size_t i = 0; i < name.len && i < sizeof(plain) - 1; i++) {
        char byte = name.bytes[i];

        if (byte < ' ' || byte > '~')
            byte = '?';
        plain[i] = byte;
    }
    snprintf(detail, sizeof(detail), "Unknown query parameter: %s.", plain);
    api_answer_bad_request(request, detail);
}

void api_answer_invalid(struct api_request *request, const struct json_errors *errors)
{
    struct json_problem problem = rows[PROBLEM_INVALID].problem;

    problem.errors = errors;
    answer_rendered(request, &problem, &(struct http_reply){0});
}

void api_answer_invalid_field(struct api_request *request, const char *field,
                              const char *message)
{
    struct json_errors errors = {0};

    json_errors_add(&errors, field, message);
    api_answer_invalid(request, &errors);
}

void api_answer_already_ordered(struct api_request *request, int64_t order_id)
{
    struct json_problem problem = rows[PROBLEM_ALREADY_ORDERED].problem;

    problem.order_id = order_id;
    answer_rendered(request, &problem, &(struct http_reply){0});
}

static int64_t whole_seconds(int64_t wait_us)
{
    return wait_us > 0 ? (wait_us + 999999) / 1000000 : 1;
}

void api_answer_not_started(struct api_request *request, int64_t wait_us)
{
    const struct json_problem *problem = &rows[PROBLEM_NOT_STARTED].problem;
    int64_t wait_s = whole_seconds(wait_us);
    struct http_reply reply = {0};
    char seconds[24];

    if (wait_s < NOT_STARTED_PAGES) {
        struct http_page **page = &request->api->problems->not_started[wait_s];

        if (*page == NULL)
            *page = render_page(problem, (unsigned)wait_s);
        if (*page != NULL) {
            http_answer_page(request->http, *page);
            return;
        }
    }
    snprintf(seconds, sizeof(seconds), "%" PRId64, wait_s);
    http_reply_add(&reply, "Retry-After", seconds);
    answer_rendered(request, problem, &reply);
}

/* The headers are defined in draft-ietf-httpapi-ratelimit-headers-10. */
void api_answer_rate_limited(struct api_request *request, const char *policy,
                             const struct limiter *limiter, int64_t wait_us)
{
    char seconds[24], quota[64], limit[64];
    struct http_reply reply = {0};

    snprintf(seconds, sizeof(seconds), "%" PRId64, whole_seconds(wait_us));
    snprintf(quota, sizeof(quota), "\"%s\";q=%" PRId64 ";w=%d", policy,
             limiter_rate_per_s(limiter) * LIMITER_BURST_FACTOR, LIMITER_BURST_FACTOR);
    snprintf(limit, sizeof(limit), "\"%s\";r=0;t=%s", policy, seconds);
    http_reply_add(&reply, "Retry-After", seconds);
    http_reply_add(&reply, "RateLimit-Policy", quota);
    http_reply_add(&reply, "RateLimit", limit);
    answer_rendered(request, &rows[PROBLEM_RATE_LIMITED].problem, &reply);
}

void api_answer_allow(struct api_request *request, const char *allow)
{
    struct http_reply reply = {.status = 204};

    http_reply_add(&reply, "Allow", allow);
    if (request->http->method == HTTP_OPTIONS)
        http_answer(request->http, &reply);
    else
        answer_rendered(request, &rows[PROBLEM_METHOD_NOT_ALLOWED].problem, &reply);
}

void api_answer_failure(struct api_request *request, enum rlock_status status,
                        bool was_write)
{
    enum api_problem problem = PROBLEM_UNAVAILABLE;

    if (status == RLOCK_REFUSED || request->has_part ||
        (was_write && status != RLOCK_NOT_FOUND && status != RLOCK_NO_MEMORY))
        log_event(LOG_WARN, "request_failed", "%s path=\"%s\" status=%s",
                  http_trace(request->http), LOG_PLAIN(request->http->path),
                  rlock_status_name(status));
    if (request->has_part) {
        http_send_part(request->http, NULL, 0, true);
        return;
    }
    if (status == RLOCK_NOT_FOUND)
        problem = PROBLEM_NOT_FOUND;
    else if (status == RLOCK_NO_MEMORY)
        problem = PROBLEM_OVERLOADED;
    else if (status == RLOCK_REFUSED)
        problem = PROBLEM_INTERNAL;
    else if (was_write && (status == RLOCK_IO || status == RLOCK_TIMEOUT))
        problem = PROBLEM_OUTCOME_UNKNOWN;
    api_answer_problem(request, problem);
}

/* -- documents -- */

void api_answer_text(struct api_request *request, struct http_reply *reply, char *text)
{
    if (text == NULL) {
        api_answer_problem(request, PROBLEM_OVERLOADED);
        return;
    }
    reply->body = text;
    reply->body_len = strlen(text);
    http_answer(request->http, reply);
    free(text);
}

void api_answer_json(struct api_request *request, unsigned status, char *text,
                     const char *location)
{
    struct http_reply reply = {.status = status, .content_type = "application/json"};

    if (location != NULL)
        http_reply_add(&reply, "Location", location);
    api_answer_text(request, &reply, text);
}

void api_answer_list(struct api_request *request, char *text)
{
    struct http_reply reply = {.status = 200, .content_type = "application/json"};
    int64_t age_s = store_lists_age_s(request->api->options.store);
    char age[24];

    snprintf(age, sizeof(age), "%" PRId64, age_s);
    if (age_s >= 0)
        http_reply_add(&reply, "Age", age);
    api_answer_text(request, &reply, text);
}
