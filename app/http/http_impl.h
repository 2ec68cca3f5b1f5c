/* http_impl.h - what the files of http share among themselves. */
#ifndef HTTP_IMPL_H
#define HTTP_IMPL_H

#include "app/http/http.h"
#include "base/list.h"

#include <microhttpd.h>
#include <stdalign.h>

/* -- http_conn.c: connections, their number and their time -- */

/* Whose turn it is on a connection. */
enum conn_state {
    CONN_IDLE,    /* the client's, to send the head of a request */
    CONN_READING, /* the client's, to send its body */
    CONN_WORKING, /* ours */
    CONN_WRITING, /* the client's, to fetch the answer */
    CONN_ENDING,  /* shut down, because the client took too long */
};

struct conn {
    struct list link; /* in conns.all */
    struct MHD_Connection *connection;
    struct peer *peer; /* NULL: not counted */
    uint64_t since_ms; /* in this state, by the loop's clock */
    enum conn_state state;
};

#define CONN_PEER_BUCKETS 1024

struct conns {
    uv_loop_t *loop;
    const struct address_networks *trusted; /* without a limit */
    size_t limit_per_address;               /* 0: none */
    uint64_t idle_ms, request_ms;
    uint64_t swept_ms;
    size_t count;
    struct list all;
    struct list free_conns;
    struct list peers[CONN_PEER_BUCKETS]; /* empty where nothing is counted */
};

void conns_init(struct conns *conns, const struct http_options *options);
void conns_clear(struct conns *conns); /* when no connection is left */

/** For MHD_start_daemon(): may one more come from this address? `arg`: the conns. */
enum MHD_Result conns_accept(void *arg, const struct sockaddr *sockaddr, socklen_t len);

/** For MHD_OPTION_NOTIFY_CONNECTION; `arg`: the conns. */
void conns_notify(void *arg, struct MHD_Connection *connection, void **slot,
                  enum MHD_ConnectionNotificationCode what);

/** NULL when memory was out at its beginning: then it has no time limit. */
struct conn *conn_of(struct MHD_Connection *connection);

/** Accepts NULL. */
void conn_enter(struct conns *conns, struct conn *conn, enum conn_state state);

/** Shut down those that have taken too long; cheap to call often. */
void conns_sweep(struct conns *conns);

void address_of_peer(struct MHD_Connection *connection, uint8_t ret_address[16]);

struct http_request {
    struct list free_link;
    struct http *http;
    struct MHD_Connection *connection;
    struct conn *conn;
    const char *path;
    char *body; /* HTTP_BODY_BYTES_MAX bytes, or NULL */
    size_t body_len;
    enum http_method method;
    bool is_answered;
    bool is_suspended;
    bool is_broken; /* no answer could be made: the connection is closed instead */
    char trace[HTTP_TRACE_BYTES];                 /* "" until asked for */
    alignas(max_align_t) unsigned char context[]; /* options.context_bytes */
};

struct http {
    uv_poll_t poll;
    uv_timer_t timer;
    struct MHD_Daemon *daemon;
    struct conns conns;
    struct list free_requests;
    struct http_options options;
    size_t pending; /* handed out and not answered */
    size_t open;    /* begun and not yet sent to the end */
    bool has_resumed;
    bool is_quiesced;
};

/* -- http_request.c -- */

/** A header's value as it came, or NULL. */
const char *http_lookup(const struct http_request *request, const char *name,
                        size_t *ret_len);

/* -- http_trace.c -- */

#define HTTP_REQUEST_ID_MAX 64

bool http_is_request_id(const char *text, size_t len);
bool http_is_traceparent(const char *text, size_t len);

/** The id for X-Request-Id of the answer; false: there is none. */
bool http_copy_id(const struct http_request *request,
                  char ret_id[HTTP_REQUEST_ID_MAX + 1]);

/* -- http_tls.c -- */

/** Have libmicrohttpd ask for the certificate at each handshake. */
struct MHD_OptionItem http_tls_option(void);

/** The certificate for the handshakes that this thread does from now on; NULL: none. */
void http_tls_use(struct http_tls *tls);

/** `next` is replaced by `old` but may be in use by a handshake: kept with it. */
void http_tls_keep(struct http_tls *next, struct http_tls *old);

#endif
