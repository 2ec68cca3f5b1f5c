/* test_mailbox.c - messages between loops: their order, the wake-up, and the end of a sender. */
#include "app/core/mailbox.h"

#include "base/list.h"
#include "test/case_list.h"

#include <poll.h>
#include <pthread.h>

#define SENDERS  4
#define MESSAGES 20000

struct message {
    struct mail mail;
    size_t sender, number;
};

static uv_loop_t loop;
static struct mailbox mailbox;
static struct closing closing;
static size_t received[SENDERS];
static bool is_closed;
static bool is_calling;
static unsigned waits;

static void on_mail(struct mail *mail, void *arg)
{
    const struct message *message = list_item(mail, struct message, mail);

    assert_ptr_equal(arg, &mailbox);
    if (message->number != received[message->sender])
        fail_msg("sender %zu: expected message %zu, got message %zu", message->sender,
                 received[message->sender], message->number);
    received[message->sender]++;
}

static void on_closed(void *owner UNUSED)
{
    is_closed = true;
}

static int setup(void **state UNUSED)
{
    memset(received, 0, sizeof(received));
    is_closed = false;
    is_calling = false;
    waits = 0;
    uv_loop_init(&loop);
    mailbox_open(&mailbox, &loop, on_mail, &mailbox);
    return 0;
}

static void close_mailbox(void)
{
    closing_start(&closing, on_closed, NULL);
    mailbox_close(&mailbox, &closing);
    closing_done(&closing);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(is_closed);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* In a test without threads, the call for which the mailbox waits ends here. */
int sched_yield(void)
{
    waits++;
    if (is_calling)
        atomic_store(&mailbox.calls, 0);
    return 0;
}

#define CASE(name) DEFINE_CASE(name, name, setup, NULL, NULL)

static void add(struct outbox *outbox, struct message *message, size_t number)
{
    *message = (struct message){.number = number};
    outbox_add(outbox, &message->mail);
}

static bool is_woken(void)
{
    struct pollfd events = {.fd = uv_backend_fd(&loop), .events = POLLIN};

    return poll(&events, 1, 0) == 1;
}

CASE(test_mailbox__keeps_the_order_of_an_outbox)
{
    struct message messages[5];
    struct outbox outbox;

    uv_run(&loop, UV_RUN_NOWAIT);
    outbox_open(&outbox, &mailbox);
    for (size_t i = 0; i < 3; i++)
        add(&outbox, &messages[i], i);
    assert_false(is_woken());
    outbox_post(&outbox);
    assert_true(is_woken());
    for (size_t i = 3; i < 5; i++)
        add(&outbox, &messages[i], i);
    outbox_post(&outbox);
    assert_int_equal(received[0], 0);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(received[0], 5);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(received[0], 5);
    outbox_close(&outbox);
    close_mailbox();
}

CASE(test_outbox_post__without_messages_wakes_nobody)
{
    struct outbox outbox;

    uv_run(&loop, UV_RUN_NOWAIT);
    outbox_open(&outbox, &mailbox);
    outbox_post(&outbox);
    assert_false(is_woken());
    outbox_close(&outbox);
    close_mailbox();
}

CASE(test_outbox_close__wakes_a_receiver_that_waits_for_it)
{
    struct outbox outboxes[2];

    uv_run(&loop, UV_RUN_NOWAIT);
    assert_false(mailbox_has_senders(&mailbox));
    for (size_t i = 0; i < 2; i++)
        outbox_open(&outboxes[i], &mailbox);
    outbox_close(&outboxes[0]);
    assert_true(mailbox_has_senders(&mailbox));
    uv_run(&loop, UV_RUN_NOWAIT);
    outbox_close(&outboxes[1]);
    assert_false(mailbox_has_senders(&mailbox));
    assert_true(is_woken());
    close_mailbox();
}

/* The last call of a sender still uses the mailbox when the sender is already closed. */
CASE(test_mailbox_close__waits_for_the_last_call_of_a_sender)
{
    is_calling = true;
    atomic_store(&mailbox.calls, 1);
    close_mailbox();
    assert_int_equal(waits, 1);
}

/* -- with threads -- */

static struct sender {
    struct outbox outbox;
    size_t number;
    struct message messages[MESSAGES];
} senders[SENDERS];

static void *send_messages(void *arg)
{
    struct sender *sender = arg;

    for (size_t i = 0; i < MESSAGES; i++) {
        struct message *message = &sender->messages[i];

        *message = (struct message){.sender = sender->number, .number = i};
        outbox_add(&sender->outbox, &message->mail);
        if (i % (sender->number + 1) == 0)
            outbox_post(&sender->outbox);
    }
    outbox_post(&sender->outbox);
    outbox_close(&sender->outbox);
    return NULL;
}

/* The loop sleeps until it is woken, so the test does not end if a wake-up is lost. */
CASE(test_mailbox__takes_the_messages_of_many_threads)
{
    pthread_t threads[SENDERS];

    for (size_t i = 0; i < SENDERS; i++) {
        senders[i].number = i;
        outbox_open(&senders[i].outbox, &mailbox);
    }
    for (size_t i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_messages, &senders[i]),
                         0);
    while (mailbox_has_senders(&mailbox))
        uv_run(&loop, UV_RUN_ONCE);
    uv_run(&loop, UV_RUN_NOWAIT);
    for (size_t i = 0; i < SENDERS; i++)
        assert_int_equal(received[i], MESSAGES);
    close_mailbox();
    for (size_t i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
