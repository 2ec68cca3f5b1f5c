/*
 * http.h - an HTTP/1.1 server on one event loop, by libmicrohttpd.
 *
 * The daemon of libmicrohttpd runs on the loop's thread, and the loop waits for its events. So no
 * function of the server blocks or takes a lock. A handler answers at once or later. If a handler
 * returns without an answer, the request is suspended until it is answered.
 *
 * Threads: the loop's only, except where a function says "any".
 */
#ifndef HTTP_H
#define HTTP_H

#include "app/core/model.h"
#include "app/http/address.h"
#include "base/err.h"
#include "base/list.h"

#include <stdalign.h>
#include <uv.h>

#define HTTP_BODY_BYTES_MAX      65536
#define HTTP_LONG_BODY_BYTES_MAX 1048576 /* for a request that may have a longer body */
#define HTTP_LISTENS_NOWHERE     (-1)
#define HTTP_TRACE_BYTES         160 /* size of the text of http_trace(), with its NUL */

struct http;
struct http_tls;

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_OTHER,
};

/* -- requests: all texts are valid until the request is answered -- */

struct http_request {
    enum http_method method;
    const char *path;  /* percent-decoded; %00 and malformed escapes stay as they are */
    struct text body;  /* empty if body_max() did not allow a body of its length */
    bool is_too_large; /* the body exceeds its limit and is discarded */
    bool is_chunked;   /* the body came in chunks; the answer closes the connection */
    /* What is malformed in the head or in the framing of the body, or NULL if nothing is malformed.
       The handler must answer a malformed request at once, and the answer closes the connection. */
    const char *defect;
    void *context; /* context_bytes of memory for the handler, zeroed and aligned */
    struct http *http;
    /* used by the server: */
    struct rlock_link link; /* in http->free_requests */
    struct MHD_Connection *connection;
    struct conn *conn;
    char *buffer;    /* memory of the body: body_max bytes, or NULL */
    size_t body_max; /* 0: the body is not stored */
    size_t received_bytes;
    size_t declared_bytes; /* Content-Length; not exact above HTTP_LONG_BODY_BYTES_MAX */
    const char *chunks;    /* end of the head; the body arrives from here on */
    bool has_id;           /* the client has sent an X-Request-Id */
    bool is_answered;
    bool is_last; /* the answer closes the connection */
    bool is_suspended;
    bool is_broken; /* no answer could be rendered: the connection is closed instead */
    struct http_parts {
        void (*next)(struct http_request *request); /* NULL: no part follows */
        char *bytes;                                /* the part that is being sent */
        size_t len, sent;
        bool is_cut;
    } parts;                                     /* state of an answer in parts */
    char trace[HTTP_TRACE_BYTES];                /* "" before the first http_trace() */
    alignas(max_align_t) unsigned char memory[]; /* `context` points here */
};

/** Return the first value of a header. If the header is absent, `bytes` of the result is NULL. Set
 *  `*ret_repeated` to whether the header occurs more than once. `ret_repeated` may be NULL. */
struct text http_header(const struct http_request *request, const char *name,
                        bool *ret_repeated);
/** Like http_header(), but for a parameter of the query. The value is percent-decoded. */
struct text http_query(const struct http_request *request, const char *name,
                       bool *ret_repeated);

/** Return the name of the first query parameter that is not in `names`, an array that ends with
 *  NULL. If there is none, `bytes` of the result is NULL. */
struct text http_query_other(const struct http_request *request,
                             const char *const *names);

/** Return the address of the client. If the peer is a trusted proxy, the client is the last address
 *  in X-Forwarded-For that is not a trusted proxy. Otherwise the client is the peer. */
void http_client_address(const struct http_request *request, uint8_t ret_address[16]);

/** Whether the client has closed the connection, or its sending side. A request that waits for long
 *  must call this function, because the server does not watch the connection of an unanswered
 *  request. */
bool http_is_gone(const struct http_request *request);

/**
 * Return a text that identifies the request in logs: "request_id=ID", and "traceparent=..." if the
 * client sent a traceparent. ID is the client's X-Request-Id if this has 1 to 64 letters, digits
 * and characters of ._:/+=@- . Otherwise http_trace() generates ID. The answer has the header
 * X-Request-Id with ID.
 */
const char *http_trace(struct http_request *request);

/** Return http_trace() if the client has sent an id or a traceparent, and otherwise NULL. */
const char *http_trace_sent(struct http_request *request);

/* -- replies -- */

#define HTTP_REPLY_HEADERS_MAX 6

/** The server adds X-Content-Type-Options if there is a content type, and Strict-Transport-Security
 *  if the connection uses TLS. If the content type is text/html, it also adds
 *  Content-Security-Policy, X-Frame-Options and Referrer-Policy. */
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

/** Add a header to a reply that has fewer than HTTP_REPLY_HEADERS_MAX headers. */
static inline void http_reply_add(struct http_reply *reply, const char *name,
                                  const char *value)
{
    reply->headers[reply->header_count++] = (struct http_reply_header){name, value};
}

/** Answer a request, exactly once, from the handler or later. */
void http_answer(struct http_request *request, const struct http_reply *reply);

/** A reply that is rendered once and sent many times. If the If-None-Match of a request names the
 *  ETag of the reply, the answer to that request is 304. http_page_create() returns NULL if memory
 *  is out. */
struct http_page;
struct http_page *http_page_create(const struct http_reply *reply);
void http_page_free(struct http_page *page); /* accepts NULL */
void http_answer_page(struct http_request *request, struct http_page *page);

/* -- answers in parts -- */

/** Answer with a body of unknown length, whose first part is in `reply`. Each time the client has
 *  received a part, the server calls `next`. Then http_send_part() must be called once, in `next`
 *  or later. If the server quiesces, the rest of the answer is not sent. */
void http_answer_parts(struct http_request *request, const struct http_reply *reply,
                       void (*next)(struct http_request *request));

/** Send the next part.
 *  @part     from malloc(), is freed; NULL: end the answer so that the client sees an error
 *  @is_last  whether this part is the last */
void http_send_part(struct http_request *request, char *part, size_t len, bool is_last);

/* -- server-sent events -- */

#define HTTP_EVENT_BYTES  1536
#define HTTP_FOLLOWED_MAX 20

struct http_followed {
    int64_t id;
    /* what the last event showed; print_event() sets this value, which begins with 0 */
    int64_t content;
};

struct http_listener {
    bool is_list; /* whether the events name the ids even if there is only one id */
    /* when the last event was sent; print_event() sets this value, which begins with 0 */
    int64_t sent_us;
    size_t count; /* 1..HTTP_FOLLOWED_MAX */
    struct http_followed *followed;
};

/**
 * Answer with events. The answer ends when the client leaves, sends something or reads too slowly,
 * or when the server quiesces.
 *
 * @listener  is copied, with the ids of the vouchers that it follows
 *
 * Returns  false if the connection cannot be kept, because of TLS, HEAD, listeners_max or a lack of
 *          memory. Then the caller must still answer the request. If listeners_max was the reason,
 *          that answer closes the connection, so the client does not occupy a descriptor
 */
MUST_CHECK bool http_stream(struct http_request *request,
                            const struct http_listener *listener);

/* -- the server -- */

struct http_options {
    uv_loop_t *loop;
    int listen_fd; /* from http_listen(), and the server closes it; or HTTP_LISTENS_NOWHERE */
    struct http_tls *tls; /* NULL: plain HTTP; owned by the server after RLOCK_OK */
    const char *tls_priority;
    struct address_networks trusted_proxies;
    /* maximum connections, including listeners; the server refuses further connections */
    size_t connections_max;
    size_t connections_per_address; /* 0: no limit; trusted proxies have no limit */
    unsigned idle_timeout_s;        /* time for the head of the next request to arrive */
    unsigned request_timeout_s;     /* time for a body to arrive, or an answer to leave */
    size_t listeners_max;
    size_t context_bytes; /* size of the context of a request */
    /* Called when the head of a request with a body has arrived. Returns how long the body may
       be, up to HTTP_LONG_BODY_BYTES_MAX. 0: the body is received and discarded. */
    size_t (*body_max)(struct http_request *request, void *arg);
    /* Called when a request has arrived. If the request has a defect or is too large, its body is
       missing, and the handler must answer at once. */
    void (*handle)(struct http_request *request, void *arg);
    /* Prints the event that a listener should receive now. Returns the length of the event, or 0 if
       there is no event. */
    size_t (*print_event)(struct http_listener *listener,
                          char ret_event[HTTP_EVENT_BYTES], void *arg);
    /* called before an answer is sent, for metrics and logs */
    void (*answered)(struct http_request *request, unsigned status, void *arg);
    void *arg;
};

/**
 * Bind `count` sockets to one address. The kernel distributes the connections over the sockets.
 *
 * @address   "host:port" or "[v6]:port"; port 0: any free port
 * @ret_fds   `count` descriptors on RLOCK_OK, each for the `listen_fd` of a server
 * @ret_port  the port of the sockets
 *
 * Returns  RLOCK_OK; RLOCK_INVALID: not an address; RLOCK_REFUSED: in use by another
 *          process, or not an address of this machine
 * Threads  any
 */
MUST_CHECK enum rlock_status http_listen(const char *address, size_t count, int *ret_fds,
                                         unsigned *ret_port, struct rlock_err *reterr);

/**
 * Parse a certificate chain and its key, both PEM, for one server.
 *
 * Returns  RLOCK_OK; RLOCK_INVALID: the chain or the key is malformed, or they do not match
 * Threads  any
 */
MUST_CHECK enum rlock_status http_tls_create(const char *cert, const char *key,
                                             struct http_tls **ret_tls,
                                             struct rlock_err *reterr);
void http_tls_free(struct http_tls *tls); /* accepts NULL */

/**
 * Check a priority string of GnuTLS: the permitted versions and cipher suites.
 *
 * Returns  RLOCK_OK; RLOCK_INVALID: `reterr` names SECKILL_TLS_PRIORITY and the position
 * Threads  any
 */
MUST_CHECK enum rlock_status http_tls_check_priority(const char *priority,
                                                     struct rlock_err *reterr);

/** Use `tls` for all later handshakes. The server owns `tls`, and must have been started with
 *  TLS. */
void http_set_tls(struct http *http, struct http_tls *tls);

/** @ret_http  set on RLOCK_OK; end with http_stop(), then http_free() */
MUST_CHECK enum rlock_status http_start(const struct http_options *options,
                                        struct http **ret_http, struct rlock_err *reterr);

/** Send the answers of this turn. Called at the end of each turn of the loop. */
void http_turn(struct http *http);

/** Accept the connections that are already queued, and no further connections. Each later answer
 *  closes its connection. */
void http_quiesce(struct http *http);

struct http_counts {
    size_t pending; /* number of unanswered requests that were passed to the handler */
    /* number of requests whose head has arrived and whose answer is not yet sent */
    size_t open;
    size_t connections;
};
struct http_counts http_counts(const struct http *http);

void http_print(const struct http *http, FILE *out);

/** Close all connections. The handles close in the next turns of the loop. No request may be
 *  pending. Accepts NULL. */
void http_stop(struct http *http);

/** Called when the handles have closed. Accepts NULL. */
void http_free(struct http *http);

#endif
