/*
 * http_client.h - an HTTP/1.1 client for tests: raw bytes out, parsed answers in.
 *
 * It sends any bytes, valid or not, and parses the answers.
 * A connection is used by one thread.
 */
#ifndef TEST_HTTP_CLIENT_H
#define TEST_HTTP_CLIENT_H

#include "base/attributes.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends a wait for an answer that never comes. */
#define CLIENT_TIMEOUT_MS 120000

struct client_address {
    char host[16]; /* dotted IPv4 */
    uint16_t port;
};

struct client_reply {
    int status;      /* 0: no complete answer; -1: not HTTP */
    char *head;      /* status line and headers, each ended by NUL */
    size_t head_len; /* with the NULs */
    char *body;      /* ended by a NUL that body_len does not count */
    size_t body_len;
    json_t *json; /* the parsed body; NULL: not JSON */
};

struct client;

/** NULL when the connection is refused. */
struct client *client_open(const struct client_address *address);
void client_close(struct client *conn); /* accepts NULL */

/** Close so that the peer sees a reset instead of an orderly end. */
void client_abort(struct client *conn);

int client_fd(const struct client *conn);

/** Send all; false when the peer has gone or does not take it in time. */
bool client_write(struct client *conn, const char *bytes, size_t len);

struct client_wait {
    bool is_head; /* the request was HEAD: no body follows, whatever Content-Length is */
    int timeout_ms;
};

/**
 * The next answer on the connection.
 *
 * Returns  never NULL; valid until the next call for this connection
 */
const struct client_reply *client_read(struct client *conn,
                                       const struct client_wait *wait);

/**
 * Read what has arrived, without waiting.
 *
 * Returns  the next answer; NULL while it is incomplete and may still be completed
 */
const struct client_reply *client_poll(struct client *conn, bool is_head);

/** Whether the peer closes the connection within `timeout_ms`, sending nothing more. */
bool client_ends(struct client *conn, int timeout_ms);

/** The value of a header, NULL when absent; the first of several. */
const char *client_header(const struct client_reply *reply, const char *name);

/** One request in text; method and target are sent as they are. */
struct client_request {
    const char *method;
    const char *target;
    const char *token;   /* NULL: no Authorization */
    const char *headers; /* more lines, each ended by CRLF; NULL: none */
    const char *body;    /* NULL: none; otherwise sent as application/json */
};

/** Returns  the length, as snprintf() */
size_t client_format(const struct client_request *request, char *buf, size_t size);

#endif
