/* http_impl.h - types and functions that only the files of the server use. */
#ifndef HTTP_IMPL_H
#define HTTP_IMPL_H

#include "app/core/idmap.h"
#include "app/http/http.h"
#include "base/list.h"

#include <microhttpd.h>

/* -- http_conn.c: connections -- */

enum conn_state {
    CONN_OPENING, /* the server waits for the TLS handshake and the first request */
    CONN_IDLE,
    CONN_READING,
    CONN_WORKING, /* the handler has the request */
    CONN_WRITING,
    CONN_ENDING,  /* the connection was shut down after a timeout */
    CONN_DRAINED, /* the answer was sent, but the client still sends; see http_conn.c */
    CONN_STREAM,  /* libmicrohttpd is done, but the client listens; see http_stream.c */
};

struct drain;

struct conn {
    struct rlock_link link; /* link in conns.all */
    struct MHD_Connection *connection;
    /* counts the connections of the address; NULL: there is no limit */
    struct peer *peer;
    struct drain *drain; /* in CONN_DRAINED */
    uint64_t since_ms;   /* when the state began, by the loop's clock */
    enum conn_state state;
    /* whether the answer was sent before the whole request had arrived */
    bool is_refused;
    /* take_socket() has put another socket in place of the client's. The next conn_end() is for
       this other socket, so it does not end the conn. */
    bool is_stream;
    bool is_query_cut;
};

struct conns {
    const struct http_options *options;
    uint64_t swept_ms;
    uint64_t handshakes_since_ms; /* handshakes that began before this time have ended */
    size_t count;
    size_t peak_count; /* the greatest `count` since conns_sweep() last returned true */
    size_t drained_count;
    bool is_stopped;
    struct rlock_link all;
    struct rlock_link free_conns;
    struct idmap peers;
};

/** @options  must outlive the conns */
void conns_init(struct conns *conns, const struct http_options *options);
void conns_stop(struct conns *conns); /* end draining for good */
void conns_clear(struct conns *conns);

/** Callback of MHD_start_daemon(), which gets the conns as `arg`. Returns whether the address may
 *  open a connection. */
enum MHD_Result conns_accept(void *arg, const struct sockaddr *sockaddr, socklen_t len);

/** Callback of MHD_OPTION_NOTIFY_CONNECTION, which gets the conns as `arg`. */
void conns_notify(void *arg, struct MHD_Connection *connection, void **slot,
                  enum MHD_ConnectionNotificationCode what);

void conn_end(struct conns *conns, struct conn *conn); /* accepts NULL */

/** Return the conn of a connection. If memory was out when the connection was opened, the result is
 *  NULL, and the connection has no timeouts. */
struct conn *conn_of(struct MHD_Connection *connection);

/** Accepts NULL. */
void conn_set_state(struct conns *conns, struct conn *conn, enum conn_state state);

/** Shut down the connections whose state has timed out. Most calls do nothing and are cheap.
 *  Returns true if most connections have ended, so that the caller should return freed memory to
 *  the kernel. */
MUST_CHECK bool conns_sweep(struct conns *conns);

void conn_peer_address(struct MHD_Connection *connection, uint8_t ret_address[16]);

struct http {
    uv_poll_t poll;
    uv_timer_t timer;
    struct MHD_Daemon *daemon;
    struct conns conns;
    struct rlock_link free_requests;
    struct rlock_link streams;
    size_t stream_count;
    uint64_t visited_ms;
    struct http_options options;
    size_t pending, open;
    bool has_resumed;
    bool is_quiesced;
};

/* -- http_framing.c -- */

/** Set the members of the request that describe its framing. Called when the head has arrived.
 *  libmicrohttpd passes `method` and `version`. */
void http_check_head(struct http_request *request, const char *method,
                     const char *version);

/** Check the end of the line that precedes the part `data` of a chunked body. */
void http_check_chunk(struct http_request *request, const char *data);

/** Callback of MHD_OPTION_URI_LOG_CALLBACK. Cuts off a query that is too long. */
void *http_on_target(void *arg, const char *target, struct MHD_Connection *connection);

/* -- http_request.c -- */

/** Return the first value of a header, or NULL if the header is absent. `ret_len` may be NULL. */
const char *http_lookup(const struct http_request *request, const char *name,
                        size_t *ret_len);

/* -- http_reply.c -- */

/** Answer the request. If `response` is NULL, close the connection without an answer. */
void http_queue(struct http_request *request, unsigned status,
                struct MHD_Response *response);

/* -- http_stream.c -- */

#define STREAMS_VISIT_MS 25

/** Called at least every STREAMS_VISIT_MS. */
void streams_visit(struct http *http);
void streams_end(struct http *http);

/* -- http_trace.c -- */

#define HTTP_REQUEST_ID_MAX 64

/** Whether the text is a request id, or a traceparent. The text must be NUL-terminated. */
bool http_is_request_id(const char *text, size_t len);
bool http_is_traceparent(const char *text, size_t len);

/** Copy the id for the X-Request-Id of the answer. Returns false if no id was sent or generated. */
bool http_copy_request_id(const struct http_request *request,
                          char ret_id[HTTP_REQUEST_ID_MAX + 1]);

/* -- http_tls.c -- */

/** The option by which each handshake uses the certificate that was passed to http_tls_use(). */
struct MHD_OptionItem http_tls_option(void);

/** Use `tls`, which may be NULL, for all later handshakes of this thread. */
void http_tls_use(struct http_tls *tls);

/** Free the predecessors of `tls` that were replaced before `handshakes_since_ms`. Every handshake
 *  under way has begun since that time, so no handshake uses these predecessors. */
void http_tls_free_old(struct http_tls *tls, uint64_t handshakes_since_ms);

#endif
