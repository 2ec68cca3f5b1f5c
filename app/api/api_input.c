/* api_input.c - reads and checks input; answers invalid input with a problem. */
#include "app/api/api_routes.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define LIMIT_DEFAULT 20
#define LIMIT_MAX     100

static bool is_json(struct text content_type)
{
    static const char json[] = "application/json";
    const size_t len = sizeof(json) - 1;

    return content_type.len >= len && strncasecmp(content_type.bytes, json, len) == 0 &&
           (content_type.len == len || content_type.bytes[len] == ';' ||
            content_type.bytes[len] == ' ');
}

bool api_parse_body(struct api_request *request)
{
    bool is_repeated;
    struct text content_type = http_header(request->http, "Content-Type", &is_repeated);
    enum rlock_status status;

    if (is_repeated) {
        api_answer_bad_request(request, "Content-Type must not be repeated.");
        return false;
    }
    if (!is_json(content_type)) {
        api_answer_problem(request, PROBLEM_NOT_JSON);
        return false;
    }
    status = json_parse(request->http->body, &request->body);
    if (status == RLOCK_OK)
        return true;
    if (status == RLOCK_NO_MEMORY)
        api_answer_problem(request, PROBLEM_OVERLOADED);
    else
        api_answer_bad_request(
            request, "The body must be a JSON object or array without duplicate names.");
    return false;
}

bool api_read_body(struct api_request *request, const struct json_field *fields,
                   void *target)
{
    struct json_errors errors = {0};

    if (!api_parse_body(request))
        return false;
    if (!json_is_object(request->body)) {
        api_answer_bad_request(request, "The body must be an object.");
        return false;
    }
    json_read(request->body, fields, target, &errors);
    if (errors.count > 0)
        api_answer_invalid(request, &errors);
    return errors.count == 0;
}

bool api_read_no_body(struct api_request *request)
{
    static const struct json_field none[] = {{0}};

    return request->http->body.len == 0 || api_read_body(request, none, NULL);
}

static bool is_printable(struct text text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.bytes[i] < ' ' || text.bytes[i] > '~')
            return false;
    }
    return true;
}

bool api_read_key(struct api_request *request, struct text *ret_key)
{
    bool is_repeated;
    struct text key = http_header(request->http, "Idempotency-Key", &is_repeated);

    if (is_repeated || key.len > REQUEST_KEY_MAX || !is_printable(key) ||
        (key.bytes != NULL && key.len == 0)) {
        api_answer_bad_request(
            request, "Idempotency-Key must be sent once, 1 to 64 printable bytes.");
        return false;
    }
    *ret_key = key;
    return true;
}

void api_answer_key_used(struct api_request *request)
{
    api_answer_invalid_field(request, "Idempotency-Key",
                             "belongs to another request of this user");
}

bool api_read_query(struct api_request *request, const char *name, int64_t *ret_number)
{
    bool is_repeated;
    struct text value = http_query(request->http, name, &is_repeated);
    char detail[80];

    if (value.bytes == NULL || (!is_repeated && text_parse_id(value, ret_number)))
        return true;
    snprintf(detail, sizeof(detail), "%s must be one integer, 1 or greater.", name);
    api_answer_bad_request(request, detail);
    return false;
}

bool api_read_limit(struct api_request *request, unsigned *ret_limit)
{
    int64_t limit = LIMIT_DEFAULT;

    if (!api_read_query(request, "limit", &limit))
        return false;
    if (limit > LIMIT_MAX) {
        api_answer_invalid_field(request, "limit", "must be 1 to 100");
        return false;
    }
    *ret_limit = (unsigned)limit;
    return true;
}
