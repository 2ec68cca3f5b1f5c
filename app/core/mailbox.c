/*
 * mailbox.c - a lock-free stack of messages, which the receiver takes whole and reverses.
 *
 * A post puts its messages on top of the stack by a compare-and-swap. The swap is right whenever the
 * top is the expected message, even if that message was taken and posted again meanwhile, because
 * only the top is compared and linked.
 */
#include "app/core/mailbox.h"

#include "base/list.h"

#include <assert.h>
#include <sched.h>

static struct mail *reversed(struct mail *newest)
{
    struct mail *oldest = NULL;

    while (newest != NULL) {
        struct mail *next = newest->next;

        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

static void mailbox_on_wake(uv_async_t *wake)
{
    struct mailbox *mailbox = list_item(wake, struct mailbox, wake);
    struct mail *mail = reversed(atomic_exchange(&mailbox->newest, NULL));

    while (mail != NULL) {
        struct mail *next = mail->next;

        mailbox->on_mail(mail, mailbox->arg);
        mail = next;
    }
}

void mailbox_open(struct mailbox *mailbox, uv_loop_t *loop,
                  void (*on_mail)(struct mail *mail, void *arg), void *arg)
{
    *mailbox = (struct mailbox){.on_mail = on_mail, .arg = arg};
    /* uv_async_init() fails only for the first handle of a loop, which uv_loop_init() makes. */
    uv_async_init(loop, &mailbox->wake, mailbox_on_wake);
}

bool mailbox_has_senders(const struct mailbox *mailbox)
{
    return atomic_load(&mailbox->senders) > 0;
}

void mailbox_close(struct mailbox *mailbox, struct closing *closing)
{
    assert(!mailbox_has_senders(mailbox));
    while (atomic_load(&mailbox->calls) > 0)
        sched_yield(); /* the last sender is about to return */
    assert(atomic_load(&mailbox->newest) == NULL);
    closing_handle(closing, (uv_handle_t *)&mailbox->wake);
}

void outbox_open(struct outbox *outbox, struct mailbox *to)
{
    *outbox = (struct outbox){.to = to};
    atomic_fetch_add(&to->senders, 1);
}

void outbox_add(struct outbox *outbox, struct mail *mail)
{
    mail->next = outbox->newest;
    outbox->newest = mail;
    if (outbox->oldest == NULL)
        outbox->oldest = mail;
}

void outbox_post(struct outbox *outbox)
{
    struct mailbox *to = outbox->to;
    struct mail *newest = outbox->newest, *oldest = outbox->oldest;
    struct mail *before;

    if (newest == NULL)
        return;
    outbox->newest = outbox->oldest = NULL;
    atomic_fetch_add(&to->calls, 1);
    before = atomic_load(&to->newest);
    do
        oldest->next = before;
    while (!atomic_compare_exchange_weak(&to->newest, &before, newest));
    uv_async_send(&to->wake);
    atomic_fetch_sub(&to->calls, 1);
}

void outbox_close(struct outbox *outbox)
{
    struct mailbox *to = outbox->to;

    assert(outbox->newest == NULL);
    atomic_fetch_add(&to->calls, 1);
    atomic_fetch_sub(&to->senders, 1);
    uv_async_send(&to->wake);
    atomic_fetch_sub(&to->calls, 1);
}
