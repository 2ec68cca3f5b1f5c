/*
 * inject.c - fails one call of a function that can fail.
 *
 * This file is linked to the service with the linker's option --wrap for each WRAP() below. So it
 * sees the calls in the code of this repository, but not the calls inside the libraries. A call
 * site is the return address of a call, relative to the program. If a callback of a library ends
 * with a tail call, the return address is in the library. All such calls of a function count as one
 * site.
 *
 * The environment:
 *
 *   TORTURE_FAIL=SITE:N    the N-th call of SITE fails; a line on stderr says so
 *   TORTURE_COUNTS=FILE    at the exit, a line "FUNCTION SITE CALLS" is written for each site
 */
#include "base/attributes.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <libpq-fe.h>
#include <microhttpd.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include <hiredis/hiredis.h>

#define SITES_MAX 1024 /* a power of two */

struct site {
    _Atomic uint64_t address; /* 0: the place is free */
    _Atomic uint64_t calls;
    const char *function;
};

static struct site sites[SITES_MAX];
static uint64_t failing_site, failing_call;
static const char *counts_path;

// NOLINTBEGIN(readability-identifier-naming): the names are the linker's and the libraries'
extern const char __executable_start, etext;

static struct site *site_at(uint64_t address, const char *function)
{
    for (uint64_t i = address % SITES_MAX;; i = (i + 1) % SITES_MAX) {
        uint64_t is_free = 0;

        if (atomic_compare_exchange_strong(&sites[i].address, &is_free, address))
            sites[i].function = function;
        if (atomic_load(&sites[i].address) == address)
            return &sites[i];
    }
}

static bool fails(const char *function, const void *caller)
{
    bool is_ours =
        (const char *)caller >= &__executable_start && (const char *)caller < &etext;
    uint64_t address =
        (uint64_t)((is_ours ? (const char *)caller : function) - &__executable_start);
    uint64_t call = atomic_fetch_add(&site_at(address, function)->calls, 1) + 1;

    if (address != failing_site || call != failing_call)
        return false;
    fprintf(stderr, "torture: %s fails\n", function);
    errno = ENOMEM;
    return true;
}

static void write_counts(void)
{
    FILE *out = fopen(counts_path, "we");

    for (size_t i = 0; out != NULL && i < SITES_MAX; i++)
        if (sites[i].address != 0)
            fprintf(out, "%s %" PRIu64 " %" PRIu64 "\n", sites[i].function,
                    sites[i].address, sites[i].calls);
    if (out != NULL)
        fclose(out);
}

__attribute__((constructor)) static void read_environment(void)
{
    // NOLINTBEGIN(concurrency-mt-unsafe): there is one thread yet
    const char *failing = getenv("TORTURE_FAIL");
    char *end;

    counts_path = getenv("TORTURE_COUNTS");
    // NOLINTEND(concurrency-mt-unsafe)
    if (failing != NULL) {
        failing_site = strtoull(failing, &end, 10);
        failing_call = strtoull(end + 1, NULL, 10);
    }
    if (counts_path != NULL)
        atexit(write_counts);
}

// NOLINTBEGIN(readability-function-size): the parameters are the libraries'
#define FAILS(name) fails(#name, __builtin_return_address(0))

/* Wraps a function. `values` are the names of its parameters, and `failure` is what a failing call
   returns. */
#define WRAP(type, name, parameters, values, failure)                                    \
    type __real_##name parameters;                                                       \
    type __wrap_##name parameters;                                                       \
    type __wrap_##name parameters                                                        \
    {                                                                                    \
        return FAILS(name) ? (failure) : __real_##name values;                           \
    }

/* clang-format off */
/* -- C and POSIX -- */
WRAP(void *, malloc, (size_t size), (size), NULL)
WRAP(void *, calloc, (size_t count, size_t size), (count, size), NULL)
WRAP(void *, realloc, (void *block, size_t size), (block, size), NULL)
WRAP(char *, strdup, (const char *text), (text), NULL)
WRAP(FILE *, open_memstream, (char **text, size_t *len), (text, len), NULL)
WRAP(ssize_t, write, (int fd, const void *bytes, size_t len), (fd, bytes, len), -1)
WRAP(ssize_t, send, (int fd, const void *bytes, size_t len, int flags), (fd, bytes, len, flags), -1)
WRAP(ssize_t, getrandom, (void *bytes, size_t len, unsigned flags), (bytes, len, flags), -1)
WRAP(int, socket, (int family, int type, int protocol), (family, type, protocol), -1)
WRAP(int, bind, (int fd, const struct sockaddr *address, socklen_t len), (fd, address, len), -1)
WRAP(int, listen, (int fd, int backlog), (fd, backlog), -1)
WRAP(int, pthread_create, (pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *arg), (thread, how, run, arg), EAGAIN)

/* -- libuv -- */
WRAP(int, uv_loop_init, (uv_loop_t *loop), (loop), UV_EMFILE)
WRAP(int, uv_poll_init, (uv_loop_t *loop, uv_poll_t *poll, int fd), (loop, poll, fd), UV_ENOMEM)
WRAP(int, uv_getaddrinfo, (uv_loop_t *loop, uv_getaddrinfo_t *request, uv_getaddrinfo_cb callback, const char *node, const char *service, const struct addrinfo *hints), (loop, request, callback, node, service, hints), UV_ENOMEM)

/* -- libpq -- */
WRAP(PGconn *, PQconnectStartParams, (const char *const *names, const char *const *values, int expand), (names, values, expand), NULL)
WRAP(PostgresPollingStatusType, PQconnectPoll, (PGconn *pg), (pg), PGRES_POLLING_FAILED)
WRAP(int, PQsetnonblocking, (PGconn *pg, int on), (pg, on), -1)
WRAP(int, PQenterPipelineMode, (PGconn *pg), (pg), 0)
WRAP(int, PQsendPrepare, (PGconn *pg, const char *name, const char *sql, int count, const Oid *types), (pg, name, sql, count, types), 0)
WRAP(int, PQsendQuery, (PGconn *pg, const char *sql), (pg, sql), 0)
WRAP(int, PQsendQueryParams, (PGconn *pg, const char *sql, int count, const Oid *types, const char *const *values, const int *lengths, const int *formats, int format), (pg, sql, count, types, values, lengths, formats, format), 0)
WRAP(int, PQsendQueryPrepared, (PGconn *pg, const char *name, int count, const char *const *values, const int *lengths, const int *formats, int format), (pg, name, count, values, lengths, formats, format), 0)
WRAP(int, PQpipelineSync, (PGconn *pg), (pg), 0)
WRAP(int, PQflush, (PGconn *pg), (pg), -1)
WRAP(int, PQconsumeInput, (PGconn *pg), (pg), 0)
WRAP(PQconninfoOption *, PQconninfoParse, (const char *text, char **why), (text, why), NULL)

/* -- hiredis -- */
WRAP(redisContext *, redisConnectNonBlock, (const char *host, int port), (host, port), NULL)
WRAP(int, redisBufferRead, (redisContext *context), (context), REDIS_ERR)
WRAP(int, redisGetReplyFromReader, (redisContext *context, void **reply), (context, reply), REDIS_ERR)

/* -- libmicrohttpd -- */
WRAP(struct MHD_Response *, MHD_create_response_from_buffer, (size_t size, void *buffer, enum MHD_ResponseMemoryMode mode), (size, buffer, mode), NULL)
WRAP(enum MHD_Result, MHD_add_response_header, (struct MHD_Response *response, const char *name, const char *value), (response, name, value), MHD_NO)
WRAP(enum MHD_Result, MHD_queue_response, (struct MHD_Connection *connection, unsigned status, struct MHD_Response *response), (connection, status, response), MHD_NO)

/* -- jansson -- */
WRAP(json_t *, json_array, (void), (), NULL)
WRAP(json_t *, json_string, (const char *text), (text), NULL)
WRAP(json_t *, json_stringn, (const char *text, size_t len), (text, len), NULL)
WRAP(char *, json_dumps, (const json_t *json, size_t flags), (json, flags), NULL)
WRAP(int, json_array_append_new, (json_t *array, json_t *json), (array, json), (json_decref(json), -1))
WRAP(int, json_object_set_new, (json_t *object, const char *name, json_t *json), (object, name, json), (json_decref(json), -1))

/* -- OpenSSL -- */
WRAP(EVP_MAC *, EVP_MAC_fetch, (OSSL_LIB_CTX *context, const char *name, const char *properties), (context, name, properties), NULL)
WRAP(EVP_MAC_CTX *, EVP_MAC_CTX_new, (EVP_MAC *mac), (mac), NULL)
WRAP(EVP_MAC_CTX *, EVP_MAC_CTX_dup, (const EVP_MAC_CTX *mac), (mac), NULL)
WRAP(int, EVP_MAC_init, (EVP_MAC_CTX *mac, const unsigned char *key, size_t len, const OSSL_PARAM *params), (mac, key, len, params), 0)
WRAP(int, EVP_MAC_update, (EVP_MAC_CTX *mac, const unsigned char *bytes, size_t len), (mac, bytes, len), 0)
WRAP(int, EVP_MAC_final, (EVP_MAC_CTX *mac, unsigned char *bytes, size_t *len, size_t size), (mac, bytes, len, size), 0)
/* clang-format on */

/* -- with variable parameters, or more than one result -- */

json_t *__wrap_json_pack(const char *format, ...);
json_t *__wrap_json_pack(const char *format, ...)
{
    json_t *json;
    va_list args;

    va_start(args, format);
    json = json_vpack_ex(NULL, 0, format, args);
    va_end(args);
    if (!FAILS(json_pack))
        return json;
    json_decref(json); /* a failing call also frees the values that it takes over */
    return NULL;
}

json_t *__real_json_loadb(const char *text, size_t len, size_t flags,
                          json_error_t *reterr);
json_t *__wrap_json_loadb(const char *text, size_t len, size_t flags,
                          json_error_t *reterr);
json_t *__wrap_json_loadb(const char *text, size_t len, size_t flags,
                          json_error_t *reterr)
{
    if (!FAILS(json_loadb))
        return __real_json_loadb(text, len, flags, reterr);
    if (reterr != NULL)
        *reterr = (json_error_t){.line = -1};
    return NULL;
}

int __wrap_asprintf(char **ret_text, const char *format, ...) PRINTF_LIKE(2, 3);
int __wrap_asprintf(char **ret_text, const char *format, ...)
{
    va_list args;
    int len;

    if (FAILS(asprintf))
        return -1;
    va_start(args, format);
    len = vasprintf(ret_text, format, args);
    va_end(args);
    return len;
}

struct MHD_Daemon *__wrap_MHD_start_daemon(unsigned flags, uint16_t port,
                                           MHD_AcceptPolicyCallback accept,
                                           void *accept_arg,
                                           MHD_AccessHandlerCallback handle,
                                           void *handle_arg, ...);
struct MHD_Daemon *__wrap_MHD_start_daemon(unsigned flags, uint16_t port,
                                           MHD_AcceptPolicyCallback accept,
                                           void *accept_arg,
                                           MHD_AccessHandlerCallback handle,
                                           void *handle_arg, ...)
{
    struct MHD_Daemon *daemon;
    va_list args;

    if (FAILS(MHD_start_daemon))
        return NULL;
    va_start(args, handle_arg);
    daemon =
        MHD_start_daemon_va(flags, port, accept, accept_arg, handle, handle_arg, args);
    va_end(args);
    return daemon;
}
// NOLINTEND(readability-function-size)
// NOLINTEND(readability-identifier-naming)
