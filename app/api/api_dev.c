/* api_dev.c - issues tokens to anyone if SECKILL_DEV_LOGIN permits it, for development. */
#include "app/api/api_routes.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TTL_S          43200
#define USER_ID_MAX    INT64_C(999999999999)
#define ROLE_CHARS_MAX 10

struct login {
    int64_t user_id;
    struct text role;
};

/* Prevents DNS rebinding, in which another site's host name resolves to the address of this
   service: only requests that name a local host are accepted. */
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

static void answer_token(struct api_request *request, const struct identity *identity)
{
    struct rlock_err err = {0};
    char *token, *text;

    if (auth_make(request->api->options.auth, identity, clock_real_us() / 1000000, TTL_S,
                  &token, &err) != RLOCK_OK) {
        api_answer_problem(request, PROBLEM_NOT_FOUND); /* there is no signing key */
        return;
    }
    if (asprintf(&text, "{\"token\":\"%s\",\"user_id\":\"%" PRId64 "\",\"role\":\"%s\"}",
                 token, identity->user_id, auth_role_names[identity->role]) < 0)
        text = NULL;
    api_answer_json(request, 201, text, NULL);
    free(token);
}

void api_make_dev_token(struct api_request *request)
{
    static const struct json_field fields[] = {
        {"user_id", JSON_FIELD_INTEGER, true, 1, USER_ID_MAX,
         offsetof(struct login, user_id)},
        {"role", JSON_FIELD_TEXT, true, 1, ROLE_CHARS_MAX, offsetof(struct login, role)},
        {0}};
    struct login login = {0};
    struct identity identity = {0};

    if (!request->api->options.dev_login || !is_host_local(request->http)) {
        api_answer_problem(request, PROBLEM_NOT_FOUND);
        return;
    }
    if (!api_read_body(request, fields, &login))
        return;
    identity.user_id = login.user_id;
    if (auth_parse_role(login.role, &identity.role))
        answer_token(request, &identity);
    else
        api_answer_invalid_field(request, "role",
                                 "must be shopper, payment, admin or auditor");
}
