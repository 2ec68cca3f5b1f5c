/* fixture_request.c - tokens, requests, checks of their answers, vouchers; see fixture.h. */
#include "app/test/fixture.h"

#include "app/auth/base64.h"
#include "base/clock.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REQUEST_SIZE 100000
#define LINE_SIZE    8192
#define TOKENS_KEPT  64
#define TOKEN_SIZE   2048

static char last_request[1000];

/* -- tokens -- */

const char *token_hs256(const char *header, const char *claims, const char *secret)
{
    static char tokens[TOKENS_KEPT][TOKEN_SIZE];
    static unsigned used;
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned mac_len = 0;
    char *token = tokens[used++ % TOKENS_KEPT];
    size_t len;

    if (header == NULL)
        header = "{\"alg\":\"HS256\",\"typ\":\"JWT\"}";
    assert_true((strlen(header) + strlen(claims)) * 4 / 3 + 64 < TOKEN_SIZE);
    len = base64_encode(header, strlen(header), token);
    token[len++] = '.';
    len += base64_encode(claims, strlen(claims), token + len);
    HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)token, len,
         mac, &mac_len);
    token[len++] = '.';
    base64_encode(mac, mac_len, token + len);
    return token;
}

static const char *token_of(int64_t user_id, const char *more)
{
    char claims[128];

    snprintf(claims, sizeof(claims), "{\"sub\":\"%lld\",\"exp\":%lld%s}",
             (long long)user_id, (long long)time(NULL) + 3600, more);
    return token_hs256(NULL, claims, FIXTURE_SECRET);
}

const char *shopper(int64_t user_id)
{
    return token_of(user_id, "");
}

const char *admin(void)
{
    return token_of(1, ",\"role\":\"admin\"");
}

const char *payment(void)
{
    return token_of(1, ",\"role\":\"payment\"");
}

/* -- requests -- */

static const struct client_reply *nothing(void)
{
    static const struct client_reply lost;

    return &lost;
}

void print_last_request(void)
{
    print_error("  %s\n", last_request);
}

static const struct client_reply *note(const struct client_request *request,
                                       const struct client_reply *reply)
{
    snprintf(last_request, sizeof(last_request), "%s %.200s: %d %s", request->method,
             request->target, reply->status, reply->body ? reply->body : "(no answer)");
    return reply;
}

static const struct client_reply *send_and_read(struct service *service,
                                                const struct client_request *request)
{
    static char bytes[REQUEST_SIZE];
    struct client_wait wait = {.timeout_ms = CLIENT_TIMEOUT_MS};

    wait.is_head = strcmp(request->method, "HEAD") == 0;
    client_close(service->conn);
    service->conn = client_open(&service->address);
    if (service->conn == NULL ||
        !client_write(service->conn, bytes, client_format(request, bytes, sizeof(bytes))))
        return note(request, nothing());
    return note(request, client_read(service->conn, &wait));
}

static void split_line(char *line, struct client_request *request)
{
    char *space = strchr(line, ' ');

    assert_non_null(space);
    *space = '\0';
    request->method = line;
    request->target = space + 1;
}

const struct client_reply *request(struct service *service, const char *token,
                                   const char *body, const char *format, ...)
{
    struct client_request request = {.token = token, .body = body};
    char line[LINE_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    split_line(line, &request);
    return send_and_read(service, &request);
}

const struct client_reply *request_with(struct service *service, const char *token,
                                        const char *headers, const char *body,
                                        const char *format, ...)
{
    struct client_request request = {.token = token, .headers = headers, .body = body};
    char line[LINE_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    split_line(line, &request);
    return send_and_read(service, &request);
}

/* -- replies -- */

const char *reply_text(const struct client_reply *reply, const char *name)
{
    const char *text = json_string_value(json_object_get(reply->json, name));

    return text == NULL ? "" : text;
}

int64_t number_of(const char *text)
{
    char *end;
    int64_t number = strtoll(text, &end, 10);

    if (end == text || (*end != '\0' && *end != '\n'))
        fail_msg("not a number: %s", text);
    return number;
}

int64_t reply_number(const struct client_reply *reply, const char *name)
{
    const json_t *member = json_object_get(reply->json, name);

    return json_is_integer(member) ? json_integer_value(member) : INT64_MIN;
}

bool reply_is(const struct client_reply *reply, int status, const char *code)
{
    return reply->status == status && strcmp(reply_text(reply, "code"), code) == 0;
}

static void print_reply(const struct client_reply *reply)
{
    for (size_t at = 0; reply->head != NULL && at < reply->head_len;
         at += strlen(reply->head + at) + 1)
        if (reply->head[at] != '\0')
            print_error("  %s\n", reply->head + at);
    print_error("  %.600s\n", reply->body ? reply->body : "(no answer)");
}

const char *reply_header(const struct client_reply *reply, const char *name)
{
    const char *value = client_header(reply, name);

    if (value == NULL) {
        print_error("no header %s in:\n", name);
        print_reply(reply);
        fail();
    }
    return value;
}

int64_t reply_retry_after(const struct client_reply *reply)
{
    return number_of(reply_header(reply, "Retry-After"));
}

double service_metric(struct service *service, const char *name)
{
    const struct client_reply *reply =
        EXPECT(request(service, NULL, NULL, "GET /metrics"), 200, NULL);
    char start[100];

    snprintf(start, sizeof(start), "\n%s ", name);
    ASSERT_CONTAINS(reply->body, start);
    return strtod(strstr(reply->body, start) + strlen(start), NULL);
}

/* Returns what violates RFC 9457 or the contract, or NULL if nothing does. */
static const char *problem_fault(const struct client_reply *reply, const char *code)
{
    const char *type = client_header(reply, "Content-Type");

    if (type == NULL || strncmp(type, "application/problem+json", 24) != 0)
        return "Content-Type";
    if (reply->json == NULL)
        return "a body of JSON";
    if (strcmp(reply_text(reply, "code"), code) != 0)
        return "code";
    if (reply_number(reply, "status") != reply->status)
        return "status in the body";
    if (reply_text(reply, "type")[0] == '\0' || reply_text(reply, "title")[0] == '\0')
        return "type and title";
    return reply_text(reply, "detail")[0] == '\0' ? "detail" : NULL;
}

const struct client_reply *expect_at(const struct client_reply *reply, int status,
                                     const char *code, const char *file, int line)
{
    const char *fault = reply->status != status ? "status" : NULL;

    if (fault == NULL && code != NULL)
        fault = problem_fault(reply, code);
    if (fault == NULL)
        return reply;
    print_error("%s:%d: expected %d %s, wrong is the %s; got:\n", file, line, status,
                code ? code : "", fault);
    print_reply(reply);
    asserts_fail(file, line);
}

/* -- sales -- */

char *time_in_ms(int64_t offset_ms, char *ret_text)
{
    int64_t at_ms = clock_real_us() / 1000 + offset_ms;
    time_t at_s = (time_t)(at_ms / 1000);
    struct tm tm;

    gmtime_r(&at_s, &tm);
    strftime(ret_text, 20, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(ret_text + strlen(ret_text), 8, ".%03uZ", (unsigned)(at_ms % 1000) % 1000u);
    return ret_text;
}

char *fill(const char *pattern, const char *value, char *ret_text, size_t size)
{
    size_t len = 0;

    for (const char *hole; (hole = strstr(pattern, "{}")) != NULL; pattern = hole + 2)
        len += (size_t)snprintf(ret_text + len, size - len, "%.*s%s",
                                (int)(hole - pattern), pattern, value);
    len += (size_t)snprintf(ret_text + len, size - len, "%s", pattern);
    assert_true(len < size);
    return ret_text;
}

void make_voucher(struct service *service, const struct sale *sale, char *ret_id)
{
    bool is_open = sale->begin_in_s == 0 && sale->end_in_s == 0;
    char begin[32], end[32], limit[48] = "", body[400], target[64];
    const struct client_reply *reply;

    time_in_ms((is_open ? -60 : sale->begin_in_s) * INT64_C(1000), begin);
    time_in_ms((is_open ? 3600 : sale->end_in_s) * INT64_C(1000), end);
    if (sale->per_user_limit != 0)
        snprintf(limit, sizeof(limit), "\"per_user_limit\":%lld,",
                 (long long)sale->per_user_limit);
    snprintf(
        body, sizeof(body),
        "{\"title\":\"test\",\"price_cents\":8000,\"face_value_cents\":10000,"
        "%s\"stock\":%lld,\"begin_at\":\"%s\",\"end_at\":\"%s\",\"admission\":\"%s\"}",
        limit, (long long)sale->stock, begin, end,
        sale->is_lottery ? "lottery" : "first_come");
    reply = EXPECT(request(service, admin(), body, "POST /v1/vouchers"), 201, NULL);
    snprintf(ret_id, ID_SIZE, "%s", reply_text(reply, "id"));
    assert_true(ret_id[0] != '\0');
    snprintf(target, sizeof(target), "/v1/vouchers/%s", ret_id);
    service_await(service, target, 200);
}

void make_known(struct service *service, struct service *other, int64_t stock,
                char *ret_id)
{
    char target[64];

    make_voucher(service, &(struct sale){.stock = stock}, ret_id);
    snprintf(target, sizeof(target), "/v1/vouchers/%s", ret_id);
    service_await(other, target, 200);
}

const struct client_reply *place_order(struct service *service, int64_t user_id,
                                       const char *voucher_id, const char *key)
{
    char header[128] = "";

    if (key != NULL)
        snprintf(header, sizeof(header), "Idempotency-Key: %s\r\n", key);
    return request_with(service, shopper(user_id), header, NULL,
                        "POST /v1/vouchers/%s/orders", voucher_id);
}
