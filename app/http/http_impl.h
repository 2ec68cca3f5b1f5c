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
    CONN_IDLE,    /* the server waits for the head of the next request */
    CONN_READING, /* the server waits for the body */
    CONN_WORKING, /* the handler has the request */
    CONN_WRITING, /* the server waits for the client to read the answer */
    CONN_ENDING,  /* the connection was shut down after a timeout */
    CONN_DRAINED, /* the answer was sent, but the client still sends; see http_conn.c */
    CONN_STREAM,  /* libmicrohttpd is done, but the client listens; see http_stream.c */
};

struct drain;

struct conn {
    struct rlock_link link; /* in conns.all */
    struct MHD_Connection *connection;
    struct peer *peer;   /* counts the connections of the address; NULL: no limit */
    struct drain *drain; /* in CONN_DRAINED */
    uint64_t since_ms;   /* when the state began, by the loop's clock */
    enum conn_state state;
    bool is_refused; /* the answer was sent before the whole request had arrived */
    /* take_socket() has put another socket in place of the client's. The next conn_end() is for
       this other socket, so it does not end the conn. */
    bool is_stream;
    bool is_query_cut; /* the query was cut off, see http_on_target() */
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
    struct idmap peers; /* struct peer by peer_id(); empty without a limit */
};

/** @options  must outlive the conns */
void conns_init(struct conns *conns, const struct http_options *options);
void conns_stop(struct conns *conns);  /* end draining for good */
void conns_clear(struct conns *conns); /* free the memory of ended connections */

/** For MHD_start_daemon(). Returns whether the address may open a connection. @arg  the conns */
enum MHD_Result conns_accept(void *arg, const struct sockaddr *sockaddr, socklen_t len);

/** For MHD_OPTION_NOTIFY_CONNECTION. @arg  the conns */
void conns_notify(void *arg, struct MHD_Connection *connection, void **slot,
                  enum MHD_ConnectionNotificationCode what);

void conn_end(struct conns *conns, struct conn *conn); /* accepts NULL */

/** Return the conn of a connection. NULL: memory was out when the connection was opened, so the
 *  connection has no timeouts. */
struct conn *conn_of(struct MHD_Connection *connection);

/** Accepts NULL. */
void conn_set_state(struct conns *conns, struct conn *conn, enum conn_state state);

/** Shut down the connections whose state has timed out. Most calls do nothing and are cheap. True:
 *  most connections have ended, so freed memory should be returned to the kernel. */
MUST_CHECK bool conns_sweep(struct conns *conns);

void conn_peer_address(struct MHD_Connection *connection, uint8_t ret_address[16]);

struct http {
    uv_poll_t poll;
    uv_timer_t timer;
    struct MHD_Daemon *daemon;
    struct conns conns;
    struct rlock_link free_requests;
    struct rlock_link streams; /* in the order of their next visits */
    size_t stream_count;
    uint64_t visited_ms;
    struct http_options options;
    size_t pending, open; /* see struct http_counts */
    bool has_resumed;     /* an answer is ready to be sent */
    bool is_quiesced;
};

/* -- http_framing.c -- */

/** Set the members of the request that describe its framing. To be called when the head has
 *  arrived. libmicrohttpd passes `method` and `version`. */
void http_check_head(struct http_request *request, const char *method,
                     const char *version);

/** Check the end of the line that precedes the part `data` of a chunked body. */
void http_check_chunk(struct http_request *request, const char *data);

/** For MHD_OPTION_URI_LOG_CALLBACK. Cuts off a query that is too long. */
void *http_on_target(void *arg, const char *target, struct MHD_Connection *connection);

/* -- http_request.c -- */

/** Return the first value of a header; NULL: the header is absent. `ret_len` may be NULL. */
const char *http_lookup(const struct http_request *request, const char *name,
                        size_t *ret_len);

/* -- http_reply.c -- */

/** Answer the request. `response` NULL: close the connection without an answer. */
void http_queue(struct http_request *request, unsigned status,
                struct MHD_Response *response);

/* -- http_stream.c -- */

#define STREAMS_VISIT_MS 25

/** To be called at least every STREAMS_VISIT_MS. */
void streams_visit(struct http *http);
void streams_end(struct http *http);

/* -- http_trace.c -- */

#define HTTP_REQUEST_ID_MAX 64

/** Whether the text is a request id, or a traceparent. The text must be NUL-terminated. */
bool http_is_request_id(const char *text, size_t len);
bool http_is_traceparent(const char *text, size_t len);

/** Copy the id for the X-Request-Id of the answer. False: no id was sent or generated. */
bool http_copy_request_id(const struct http_request *request,
                          char ret_id[HTTP_REQUEST_ID_MAX + 1]);

/* -- http_tls.c -- */

/** The option by which each handshake uses the certificate that was passed to http_tls_use(). */
struct MHD_OptionItem http_tls_option(void);

/** Use `tls` for the handshakes of this thread from now on; NULL: none. */
void http_tls_use(struct http_tls *tls);

/** Free the predecessors of `tls` that were replaced before `handshakes_since_ms`. All handshakes
 *  under way have begun since then, so none uses these predecessors. */
void http_tls_free_old(struct http_tls *tls, uint64_t handshakes_since_ms);

#endif
