/*
 * http.h - HTTP/1.1 of one event loop, by libmicrohttpd: a request in, a reply out.
 *
 * The daemon runs in external epoll mode on the loop's thread, so nothing here blocks or
 * locks. A handler answers at once or later; a request that is not yet answered when the
 * handler returns is suspended and costs nothing until it is.
 *
 * Threads: that of the loop, except http_listen().
 */
#ifndef HTTP_H
#define HTTP_H

#include "app/core/model.h"
#include "app/http/address.h"
#include "base/attributes.h"
#include "base/err.h"

#include <uv.h>

#define HTTP_BODY_BYTES_MAX 65536
#define HTTP_TRACE_BYTES    160 /* of http_trace(), with its NUL */

struct http;
struct http_request;
struct http_tls;

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PATCH,
    HTTP_OPTIONS,
    HTTP_OTHER,
};

/* The request line and what stands behind it; valid until the request is answered. */
enum http_method http_method(const struct http_request *request);
/** Percent-decoded, except that %00 and broken escapes stay as they came. */
const char *http_path(const struct http_request *request);
struct text http_body(const struct http_request *request);
/** The body was longer than HTTP_BODY_BYTES_MAX and was thrown away. */
bool http_body_is_too_large(const struct http_request *request);

/** A header's value; bytes NULL when absent. `*ret_repeated` (may be NULL) is set when it
 *  came more than once; then the value is that of the first. */
struct text http_header(const struct http_request *request, const char *name,
                        bool *ret_repeated);
/** The same for a parameter of the query, percent-decoded. */
struct text http_query(const struct http_request *request, const char *name,
                       bool *ret_repeated);
/** The address of who asks: the peer's, or, where that is a trusted proxy, the one that
 * it tells in X-Forwarded-For. */
void http_client_address(const struct http_request *request, uint8_t ret_address[16]);

/**
 * What a log says of a request: "request_id=ID" and, where the client sent one, behind it
 * " traceparent=...". The id is the client's X-Request-Id if that is 1 to 64 letters,
 * digits and ._:/+=@- ; else one is made. Whoever sent an id, or had one made by this
 * call, finds it in the answer's X-Request-Id.
 */
const char *http_trace(struct http_request *request);

/** The same if the client sent an id or a traceparent, else NULL: costs no new id. */
const char *http_trace_sent(struct http_request *request);

/** The handler's context: `context_bytes` that live as long as the request, aligned for
 *  any type, not initialised. */
void *http_context(struct http_request *request);

/** The server that the request came to. */
const struct http *http_of(const struct http_request *request);

/* -- replies -- */

/*
 * Every reply also carries X-Content-Type-Options. A reply of type text/html carries the
 * headers that isolate a page, and a reply over TLS carries Strict-Transport-Security.
 */

#define HTTP_REPLY_HEADERS_MAX 6

struct http_reply {
    unsigned status;
    const char *content_type; /* NULL: no body */
    const char *body;         /* copied */
    size_t body_len;
    size_t header_count;
    struct http_reply_header {
        const char *name, *value; /* copied */
    } headers[HTTP_REPLY_HEADERS_MAX];
};

/** Answer a request; exactly once for each, from the handler or later. */
void http_answer(struct http_request *request, const struct http_reply *reply);

/** A reply made once and given many times, for answers that do not differ. NULL: out of
 *  memory. */
struct http_page;
struct http_page *http_page_create(const struct http_reply *reply);
void http_page_free(struct http_page *page); /* accepts NULL */
void http_answer_page(struct http_request *request, struct http_page *page);

/* -- the server -- */

struct http_options {
    uv_loop_t *loop;
    int listen_fd;        /* from http_listen(); taken over */
    struct http_tls *tls; /* NULL: plain HTTP; taken over on STATUS_OK */
    struct address_networks trusted_proxies;
    size_t connections_per_address; /* 0: no limit; proxies have none */
    unsigned idle_timeout_s;    /* between two requests, to the end of the next head */
    unsigned request_timeout_s; /* for a body to come, and for an answer to leave */
    size_t context_bytes;       /* of http_context() */
    void (*handle)(struct http_request *request, void *arg);
    /* an answer is about to be given: for counting and logging */
    void (*answered)(struct http_request *request, unsigned status, void *arg);
    void *arg;
};

/**
 * Bind `count` sockets to one address, so that the kernel spreads connections over them.
 *
 * @address       "host:port" or "[v6]:port"; port 0: a free one
 * @ret_fds       `count` descriptors on STATUS_OK, the caller's to close or hand on
 * @ret_port      the port they are bound to
 *
 * Returns  STATUS_OK; STATUS_INVALID: not an address; STATUS_REFUSED: in use by another
 *          process, or not ours
 */
MUST_CHECK enum status http_listen(const char *address, size_t count, int *ret_fds,
                                   unsigned *ret_port, struct err *reterr);

/**
 * A certificate chain and its key, both PEM, for one server.
 *
 * Returns  STATUS_OK; STATUS_INVALID: they are none, or do not belong together
 */
MUST_CHECK enum status http_tls_create(const char *cert, const char *key,
                                       struct http_tls **ret_tls, struct err *reterr);
void http_tls_free(struct http_tls *tls); /* accepts NULL */

/** Use it for the handshakes from now on, instead of the one that http_start() was given;
 *  taken over. */
void http_set_tls(struct http *http, struct http_tls *tls);

/** @ret_http  set on STATUS_OK; end with http_stop(), then http_free() */
MUST_CHECK enum status http_start(const struct http_options *options,
                                  struct http **ret_http, struct err *reterr);

/** To be called once a turn, last: sends the answers that became ready. */
void http_turn(struct http *http);

/** Take in what has reached the socket already, then no more connections; answers from
 *  now on close theirs. */
void http_quiesce(struct http *http);

/** Requests handed out and not yet answered. */
size_t http_pending(const struct http *http);

/** Requests begun by a client whose answer has not yet left completely. */
size_t http_open(const struct http *http);

/** Open connections. */
size_t http_connections(const struct http *http);

/** Close all connections; the loop then holds handles that close in its next turns.
 *  http_pending() must be 0. Accepts NULL. */
void http_stop(struct http *http);

/** After the loop has run out. Accepts NULL. */
void http_free(struct http *http);

#endif
