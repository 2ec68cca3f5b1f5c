/*
 * fuzz_request.c - requests to a worker without its servers: path, query, cursors, headers, bodies,
 * tokens.
 *
 * An input is a request without Content-Length, which the fuzzer adds. $A, $P and $S stand for
 * valid tokens of an admin, a payment service and a shopper.
 *
 * Every answer must be HTTP, and its status must not be 500.
 */
#include "app/cmd/worker.h"
#include "app/core/log.h"
#include "app/test/fuzz/fuzz.h"
#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define REQUEST_BYTES 131072

/* No server listens on port 1. */
static const struct config config = {
    .database_url = "postgresql://127.0.0.1:1/nothing",
    .lists_url = "",
    .redis_url = "redis://127.0.0.1:1",
    .jwt_secret = "a secret of the fuzzer, 32 bytes or more of it",
    .jwt_public_key = "",
    .jwt_private_key = "",
    .jwt_keys = "",
    .jwt_issuer = "",
    .jwt_audience = "",
    .jwt_jwks = "",
    .jwt_user_claim = "sub",
    .jwt_role_claim = "role",
    .ticket_secret = "another secret of the fuzzer, of 32 bytes or more",
    .ticket_ttl_s = 100,
    .tls_cert = "",
    .tls_key = "",
    .trusted_proxies = "0.0.0.0/0, ::/0",
    .lock_lease_ms = 1000,
    .order_timeout_ms = 1000,
    .batch_max = 10,
    .queue_max = 10,
    .rate_per_ip = 1000000,
    .idle_timeout_s = 5,
    .request_timeout_s = 5,
};

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static socklen_t address_len = sizeof(sa_family_t); /* the kernel chooses a name */
static char *tokens[3];

static void make_tokens(const struct auth *auth)
{
    for (int role = AUTH_SHOPPER; role <= AUTH_ADMIN; role++) {
        struct identity identity = {.user_id = 7, .role = (enum auth_role)role};
        enum rlock_status status = auth_make(auth, &identity, clock_real_us() / 1000000,
                                             1000000, &tokens[role], NULL);

        assert(status == RLOCK_OK);
        (void)status;
    }
}

static int listen_locally(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&address, address_len) == 0 &&
              listen(fd, 100) == 0;

    assert(ok);
    (void)ok;
    address_len = sizeof(address);
    getsockname(fd, (struct sockaddr *)&address, &address_len);
    return fd;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static struct metrics metrics;
    static struct metrics *loops[] = {&metrics};
    static const struct all_metrics all_metrics = {loops, 1};
    static struct worker *worker;
    struct worker_options options = {.config = &config,
                                     .keys = calloc(1, sizeof(*options.keys)),
                                     .connections_max = 100,
                                     .metrics = &metrics,
                                     .all_metrics = &all_metrics};
    enum rlock_status status = auth_create(&config, &options.keys->auth, NULL);

    (void)argc;
    (void)argv;
    assert(status == RLOCK_OK);
    make_tokens(options.keys->auth);
    log_set_level(LOG_ERROR);
    options.listen_fd = listen_locally();
    status = worker_start(&options, &worker, NULL);
    assert(status == RLOCK_OK);
    return 0;
}

/* -- the request -- */

struct buffer {
    char bytes[REQUEST_BYTES];
    size_t len;
};

static void add(struct buffer *buffer, const void *bytes, size_t len)
{
    if (len > sizeof(buffer->bytes) - buffer->len)
        len = sizeof(buffer->bytes) - buffer->len;
    memcpy(buffer->bytes + buffer->len, bytes, len);
    buffer->len += len;
}

static const char *token_of(char letter)
{
    const char *at = letter != '\0' ? strchr("SPA", letter) : NULL;

    return at != NULL ? tokens[at - "SPA"] : NULL;
}

static void add_with_tokens(struct buffer *buffer, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const char *token =
            bytes[i] == '$' && i + 1 < len ? token_of(bytes[i + 1]) : NULL;

        if (token != NULL)
            add(buffer, token, strlen(token));
        else
            add(buffer, bytes + i, 1);
        i += token != NULL;
    }
}

static void write_request(struct buffer *buffer, const char *data, size_t size)
{
    static const char end[] = "\r\n\r\n";
    const char *head_end = memmem(data, size, end, sizeof(end) - 1);
    size_t head_len = head_end != NULL ? (size_t)(head_end - data) : size;
    size_t body_len = head_end != NULL ? size - head_len - 4 : 0;
    char length[64];

    add_with_tokens(buffer, data, head_len);
    add(buffer, length,
        (size_t)snprintf(length, sizeof(length), "\r\nContent-Length: %zu%s", body_len,
                         end));
    if (head_end != NULL)
        add(buffer, head_end + 4, body_len);
}

/* -- the answer -- */

static size_t read_answer(int fd, char *answer, size_t size)
{
    char rest[16384];
    size_t len = 0;
    ssize_t got;

    while ((got = recv(fd, rest, sizeof(rest), 0)) > 0) {
        size_t kept = (size_t)got < size - len ? (size_t)got : size - len;

        memcpy(answer + len, rest, kept);
        len += kept;
    }
    return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct buffer buffer;
    char answer[13] = "";
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    buffer.len = 0;
    write_request(&buffer, (const char *)data, size);
    if (connect(fd, (struct sockaddr *)&address, address_len) != 0)
        abort();
    if (send(fd, buffer.bytes, buffer.len, MSG_NOSIGNAL) >= 0)
        shutdown(fd, SHUT_WR);
    if (read_answer(fd, answer, sizeof(answer) - 1) == sizeof(answer) - 1 &&
        (strncmp(answer, "HTTP/1.", 7) != 0 || strncmp(answer + 9, "500", 3) == 0)) {
        fprintf(stderr, "answered: %s\n", answer);
        abort();
    }
    close(fd);
    return 0;
}
