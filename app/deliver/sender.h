/*
 * sender.h - sends messages to HTTP servers on the loop, with libcurl.
 *
 * A server is not trusted. Each new connection goes only to an address that destination_check()
 * permits: the address that the connection really gets is checked, so it does not matter what the
 * name of the server resolves to later. Redirects are not followed, and no proxy is used.
 *
 * Threads: the loop's only.
 */
#ifndef SENDER_H
#define SENDER_H

#include "app/http/address.h"

#include <uv.h>

struct sender;
struct transfer;

struct sender_message {
    const char *url; /* http:// or https:// */
    const char *id;
    int64_t timestamp_s;
    const char *signature;
    const char *body;    /* JSON */
    uint32_t timeout_ms; /* for the whole transfer */
};

/** Called once per transfer, never by sender_post() itself.
 *  @error  NULL: a complete answer of status 2xx came; otherwise why not */
typedef void (*sender_cb)(const char *error, void *arg);

/** @allowed  networks for destination_check(); borrowed. Returns NULL if memory is out. */
struct sender *sender_open(uv_loop_t *loop, const struct address_networks *allowed);

/** To be called when no transfer is under way. The loop frees the memory in a later turn. Accepts
 *  NULL. */
void sender_close(struct sender *sender);

/** Send a message. The message is copied. NULL: out of memory. */
MUST_CHECK struct transfer *sender_post(struct sender *sender,
                                        const struct sender_message *message,
                                        sender_cb done, void *arg);

/** End a transfer whose callback was not called yet, without calling it. Accepts NULL. */
void sender_cancel(struct transfer *transfer);

#endif
