/*
 * handover.c - requests on their way to the seller, and their answers on the way back.
 *
 * A request and its answer are one struct, which belongs to the loop of the connection. This loop
 * uses the struct until the request is posted to the seller. Then only the seller uses it, until
 * the answer is posted back.
 */
#include "app/sale/handover.h"

#include "app/core/mailbox.h"
#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct handed_request {
    struct mail mail;
    struct handover *from;
    struct checkout_request request; /* its texts are `key` and `trace` */
    checkout_cb callback;
    void *arg;
    char key[REQUEST_KEY_MAX];
    char trace[CHECKOUT_TRACE_BYTES];
    /* the answer: */
    enum outcome outcome;
    bool has_order;
    struct order order;
    int64_t answered_us;
    struct voucher_snapshot snapshot;
    int64_t snapshot_us; /* 0: the answer has no snapshot */
};

struct handover {
    struct handover_options options;
    struct closing closing;
    /* for requests, on the seller; for answers, on another loop */
    struct mailbox mailbox;
    /* of the seller: */
    struct rlock_link answered;
    /* of another loop: */
    struct outbox requests;
    struct mail
        *unused; /* memory for requests, so that a running sale allocates nothing */
    size_t count;
    /* Another loop owns these fields, but only the seller uses them. */
    struct outbox answers;
    struct rlock_link link; /* link in seller->answered */
};

/* -- memory -- */

static struct handed_request *take_unused(struct handover *handover)
{
    struct mail *mail = handover->unused;

    if (mail == NULL)
        return malloc(sizeof(struct handed_request));
    handover->unused = mail->next;
    return list_item(mail, struct handed_request, mail);
}

static void put_unused(struct handover *handover, struct handed_request *handed)
{
    handed->mail.next = handover->unused;
    handover->unused = &handed->mail;
}

/* -- the way to the seller -- */

static void copy_request(struct handed_request *handed,
                         const struct checkout_request *request)
{
    assert(request->key.len <= sizeof(handed->key));
    handed->request = *request;
    if (request->key.bytes != NULL) {
        memcpy(handed->key, request->key.bytes, request->key.len);
        handed->request.key.bytes = handed->key;
    }
    if (request->trace != NULL) {
        snprintf(handed->trace, sizeof(handed->trace), "%s", request->trace);
        handed->request.trace = handed->trace;
    }
    handed->request.handed_us = clock_mono_us();
}

bool handover_submit(struct handover *handover, const struct checkout_request *request,
                     checkout_cb callback, void *arg)
{
    const struct handover *seller = handover->options.seller;
    struct handed_request *handed;

    if (seller == NULL)
        return checkout_submit(handover->options.checkout, request, callback, arg);
    handed = take_unused(handover);
    if (handed == NULL)
        return false;
    if (!checkout_reserve(seller->options.checkout)) {
        put_unused(handover, handed);
        return false;
    }
    copy_request(handed, request);
    handed->from = handover;
    handed->callback = callback;
    handed->arg = arg;
    handover->count++;
    outbox_add(&handover->requests, &handed->mail);
    return true;
}

/* -- the way back; handover_on_outcome() runs on the seller -- */

static void handover_on_outcome(enum outcome outcome, const struct order *order,
                                void *arg)
{
    struct handed_request *handed = arg;
    struct handover *to = handed->from;
    struct handover *seller = to->options.seller;

    handed->outcome = outcome;
    handed->has_order = order != NULL;
    if (order != NULL)
        handed->order = *order;
    handed->snapshot_us = catalogue_share(seller->options.catalogue,
                                          handed->request.voucher_id, &handed->snapshot);
    handed->answered_us = clock_mono_us();
    outbox_add(&to->answers, &handed->mail);
    if (list_is_empty(&to->link))
        list_append(&seller->answered, &to->link);
}

static void take_answer(struct handover *handover, struct handed_request *handed)
{
    if (handed->snapshot_us != 0)
        catalogue_update(handover->options.catalogue, &handed->snapshot,
                         handed->snapshot_us);
    metrics_observe_stage_us(handover->options.metrics, STAGE_HANDOVER,
                             clock_mono_us() - handed->answered_us);
    handed->callback(handed->outcome, handed->has_order ? &handed->order : NULL,
                     handed->arg);
    handover->count--;
    put_unused(handover, handed);
}

static void take_request(const struct handover *seller, struct handed_request *handed)
{
    if (checkout_submit_reserved(seller->options.checkout, &handed->request,
                                 handover_on_outcome, handed))
        return;
    metrics_add(&seller->options.metrics->outcomes[OUTCOME_OVERLOADED], 1);
    handover_on_outcome(OUTCOME_OVERLOADED, NULL, handed);
}

static void handover_on_mail(struct mail *mail, void *arg)
{
    struct handover *handover = arg;
    struct handed_request *handed = list_item(mail, struct handed_request, mail);

    if (handover->options.seller == NULL)
        take_request(handover, handed);
    else
        take_answer(handover, handed);
}

void handover_turn(struct handover *handover)
{
    if (handover->options.seller != NULL)
        outbox_post(&handover->requests);
    LIST_DRAIN(struct handover, to, &handover->answered, link)
        outbox_post(&to->answers); /* `to` may close from now on */
}

/* -- start and end -- */

struct handover *handover_create(const struct handover_options *options)
{
    struct handover *handover = calloc(1, sizeof(*handover));

    if (handover == NULL)
        return NULL;
    handover->options = *options;
    list_init(&handover->answered);
    list_init(&handover->link);
    mailbox_open(&handover->mailbox, options->loop, handover_on_mail, handover);
    if (options->seller != NULL) {
        outbox_open(&handover->requests, &options->seller->mailbox);
        outbox_open(&handover->answers, &handover->mailbox);
    }
    return handover;
}

bool handover_is_idle(const struct handover *handover)
{
    return handover->options.seller != NULL ? handover->count == 0
                                            : !mailbox_has_senders(&handover->mailbox);
}

static void handover_on_closed(void *owner)
{
    struct handover *handover = owner;

    while (handover->unused != NULL)
        free(take_unused(handover));
    free(handover);
}

void handover_close(struct handover *handover)
{
    if (handover == NULL)
        return;
    assert(handover_is_idle(handover));
    closing_start(&handover->closing, handover_on_closed, handover);
    if (handover->options.seller != NULL) {
        outbox_close(&handover->requests);
        outbox_close(&handover->answers);
    }
    mailbox_close(&handover->mailbox, &handover->closing);
    closing_done(&handover->closing);
}
