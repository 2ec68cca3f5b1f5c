/*
 * mailbox.h - messages from other loops of the process to one loop.
 *
 * A sender collects the messages of a turn in its outbox and posts them together. Posting takes no
 * lock, and wakes the receiver at most once. Messages of one outbox arrive in the sequence in which
 * they were added.
 *
 * A message is in memory of the sender. After a message was posted, only the receiver may use it.
 *
 * Threads: an outbox belongs to the loop of its sender, a mailbox to the loop of its receiver.
 */
#ifndef MAILBOX_H
#define MAILBOX_H

#include "base/closing.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct mail {
    struct mail *next;
};

struct mailbox {
    uv_async_t wake;
    void (*on_mail)(struct mail *mail, void *arg);
    void *arg;
    /* the messages that were posted, linked from the newest to the oldest */
    _Atomic(struct mail *) newest;
    _Atomic size_t senders; /* open outboxes */
    /* number of calls of outbox_post() and outbox_close() in progress */
    _Atomic size_t calls;
};

struct outbox {
    struct mailbox *to;
    struct mail *newest, *oldest;
};

/** Open a mailbox. `on_mail` is called on `loop` once for each message. */
void mailbox_open(struct mailbox *mailbox, uv_loop_t *loop,
                  void (*on_mail)(struct mail *mail, void *arg), void *arg);

bool mailbox_has_senders(const struct mailbox *mailbox);

/** Close a mailbox that has no senders and no messages, as a part of its owner. */
void mailbox_close(struct mailbox *mailbox, struct closing *closing);

/** Open an outbox. The mailbox must stay open until outbox_close(). Threads: any. */
void outbox_open(struct outbox *outbox, struct mailbox *to);

/** Add a message for the next outbox_post(). */
void outbox_add(struct outbox *outbox, struct mail *mail);

/** Post the messages, if there are any. Called once per turn of the loop. */
void outbox_post(struct outbox *outbox);

/** Close an empty outbox and wake the receiver, which may wait for its last sender. */
void outbox_close(struct outbox *outbox);

#endif
