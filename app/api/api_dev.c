/* api_dev.c - a token for whoever asks, where SECKILL_DEV_LOGIN says so: development. */
#include "app/api/api_routes.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TTL_S          43200
#define USER_ID_MAX    INT64_C(999999999999)
#define ROLE_CHARS_MAX 10

struct asked {
    int64_t user_id;
    struct text role;
};

static const char *const role_names[] = {"shopper", "payment", "admin"};

/* A page of elsewhere whose name was made to lead here must not get one either. */
static bool is_host_local(const struct http_request *request)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "[::1]"};
    struct text host = http_header(request, "Host", NULL);

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        size_t len = strlen(hosts[i]);

        if (host.len >= len && memcmp(host.bytes, hosts[i], len) == 0 &&
            (host.len == len || host.bytes[len] == ':'))
            return true;
    }
    return false;
}

static bool find_role(struct text name, enum auth_role *ret_role)
{
    for (int role = AUTH_SHOPPER; role <= AUTH_ADMIN; role++) {
        if (strlen(role_names[role]) == name.len &&
            memcmp(role_names[role], name.bytes, name.len) == 0) {
            *ret_role = (enum auth_role)role;
            return true;
        }
    }
    return false;
}

static char *print_token(const char *token, const struct identity *identity)
{
    char *text;
    int len =
        asprintf(&text, "{\"token\":\"%s\",\"user_id\":\"%" PRId64 "\",\"role\":\"%s\"}",
                 token, identity->user_id, role_names[identity->role]);

    return len >= 0 ? text : NULL;
}

static void answer_token(struct api *api, struct http_request *request,
                         const struct identity *identity)
{
    struct err err = {0};
    char *token;

    if (auth_make(api->options.auth, identity, clock_real_us() / 1000000, TTL_S, &token,
                  &err) != STATUS_OK) {
        api_answer_problem(api, request, PROBLEM_NOT_FOUND); /* no key that signs */
        return;
    }
    api_answer_json(api, request, 201, print_token(token, identity), NULL);
    free(token);
}

void api_dev_token(struct api *api, struct http_request *request, int64_t id)
{
    static const struct json_field fields[] = {
        {"user_id", JSON_FIELD_INTEGER, true, 1, USER_ID_MAX,
         offsetof(struct asked, user_id)},
        {"role", JSON_FIELD_TEXT, true, 1, ROLE_CHARS_MAX, offsetof(struct asked, role)},
        {0}};
    struct asked asked = {0};
    struct identity identity = {0};
    struct json_errors errors = {0};
    struct json_document *document;

    (void)id;
    if (!api->options.dev_login || !is_host_local(request)) {
        api_answer_problem(api, request, PROBLEM_NOT_FOUND);
        return;
    }
    if (!api_read_body(api, request, fields, &asked, &document))
        return;
    identity.user_id = asked.user_id;
    if (find_role(asked.role, &identity.role)) {
        answer_token(api, request, &identity);
    } else {
        json_errors_add(&errors, "role", "must be shopper, payment or admin");
        api_answer_invalid(api, request, &errors);
    }
    json_document_free(document);
}
