/*
 * http_client.h - an HTTP/1.1 client for tests.
 *
 * The client sends any bytes, valid or not, and parses the answers. A connection is used by one
 * thread.
 */
#ifndef TEST_HTTP_CLIENT_H
#define TEST_HTTP_CLIENT_H

#include "base/attributes.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLIENT_TIMEOUT_MS 120000

struct client_address {
    char host[16];
    uint16_t port;
};

struct client_reply {
    int status;      /* 0: the answer is incomplete; -1: the answer is not HTTP */
    char *head;      /* status line and headers, each ended by a NUL */
    size_t head_len; /* includes the NULs */
    char *body;      /* ended by a NUL, which body_len does not count */
    size_t body_len;
    json_t *json;
};

struct client;

struct client *client_open(const struct client_address *address);
void client_close(struct client *conn); /* accepts NULL */

void client_abort(struct client *conn);

int client_fd(const struct client *conn);

/** Send all bytes. Returns false if the peer has gone or does not read them in time. */
bool client_write(struct client *conn, const char *bytes, size_t len);

struct client_wait {
    /* the request was HEAD: no body follows, whatever Content-Length says */
    bool is_head;
    int timeout_ms;
};

/**
 * Wait for the next answer on the connection.
 *
 * Returns  the answer, never NULL; valid until the next call for this connection
 */
const struct client_reply *client_read(struct client *conn,
                                       const struct client_wait *wait);

/**
 * Read the bytes that have arrived, and do not wait.
 *
 * Returns  the next answer, or NULL if it is incomplete and the connection is still open. If the
 *          connection has ended or the bytes are not HTTP, the status of the answer is 0 or -1
 */
const struct client_reply *client_poll(struct client *conn, bool is_head);

/** Whether the peer closes the connection within `timeout_ms`, and sends nothing before. */
bool client_ends(struct client *conn, int timeout_ms);

/** The first value of a header, or NULL if the answer lacks the header. */
const char *client_header(const struct client_reply *reply, const char *name);

struct client_request {
    const char *method;
    const char *target;
    const char *token; /* NULL: no Authorization */
    const char *headers;
    const char *body;
};

/** Write the request as text. Returns its length, as snprintf() does. */
size_t client_format(const struct client_request *request, char *buf, size_t size);

#endif
