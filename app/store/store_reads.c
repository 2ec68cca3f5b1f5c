/*
 * store_reads.c - queues and sends the reads of the API.
 *
 * Only few rows are under way at once, because the loop decodes and prints them, and would delay
 * the orders if this took long. If a read waits for a table lock, the server soon cancels the read,
 * which is sent again after the other reads. Only a migration holds a table lock for long. If a
 * read is late, it is answered without waiting for its result.
 */
#include "app/store/store_impl.h"

#include <string.h>

#define WAITING_MAX 4096 /* most reads that wait */
/* maximum reads under way, including reads that were answered late */
#define SENT_MAX     64
#define ROWS_MAX     256     /* maximum rows under way; a single read may have more */
#define LOCK_TIMEOUT "55P03" /* SQLSTATE lock_not_available */

void store_init_reads(struct store *store)
{
    static const enum role roles[] = {ROLE_READS, ROLE_LISTS};

    for (size_t i = 0; i < 2; i++) {
        store->reads[i].role = roles[i];
        list_init(&store->reads[i].waiting);
        list_init(&store->reads[i].sent);
    }
}

static void wait_for_turn(struct call *call)
{
    list_append(&call->reads->waiting, &call->query.link);
    call->reads->waiting_count++;
    store_watch_deadlines(call->store);
}

static void store_on_read(struct store_query *query, enum rlock_status status,
                          const PGresult *result, const struct rlock_err *why)
{
    struct call *call = list_item(query, struct call, query);

    list_remove(&call->sent);
    call->reads->rows -= call->rows;
    query->done = call->done;
    if (status == RLOCK_BUSY && strcmp(result_sqlstate(result), LOCK_TIMEOUT) == 0) {
        call->status = RLOCK_BUSY;
        wait_for_turn(call);
    } else {
        call->done(query, status, result, why);
    }
}

static bool is_up(const struct call *call)
{
    return store_conn_is_up(call->store->conns[call->reads->role]);
}

void store_read(struct call *call, enum statement statement, unsigned rows)
{
    struct store *store = call->store;
    bool is_list =
        statement >= STATEMENT_LIST_ORDERS && statement <= STATEMENT_LIST_ENDED;

    call->reads = &store->reads[is_list && store->conns[ROLE_LISTS] != NULL];
    call->statement = statement;
    call->rows = rows;
    call->status = RLOCK_NO_MEMORY;
    call->deadline_us = store_deadline_us(store, call->deadline_us);
    if (!is_up(call))
        store_answer_later(call, RLOCK_DOWN);
    else if (call->reads->waiting_count >= WAITING_MAX ||
             !params_copy(&call->params, &store->params))
        store_answer_later(call, RLOCK_NO_MEMORY);
    else
        wait_for_turn(call);
}

static void end_waiting(struct call *call)
{
    list_remove(&call->query.link);
    call->reads->waiting_count--;
}

static void send_read(struct call *call)
{
    end_waiting(call);
    if (!is_up(call)) {
        store_answer_later(call, RLOCK_DOWN);
        return;
    }
    call->done = call->query.done;
    call->query.done = store_on_read;
    call->reads->rows += call->rows;
    list_append(&call->reads->sent, &call->sent);
    store_send(call->reads->role, call, call->statement, &call->params);
}

void store_send_reads(struct store *store)
{
    for (size_t i = 0; i < 2; i++) {
        const struct reads *reads = &store->reads[i];
        struct call *call;

        while ((call = LIST_FIRST(struct call, &reads->waiting, query.link)) != NULL &&
               store_conn_pending(store->conns[reads->role]) < SENT_MAX &&
               (reads->rows == 0 || reads->rows + call->rows <= ROWS_MAX))
            send_read(call);
    }
}

bool store_time_out_reads(struct store *store, int64_t now_us)
{
    bool is_waited_for = false;

    for (size_t i = 0; i < 2; i++) {
        struct reads *reads = &store->reads[i];

        store_abandon_late(reads->role, &reads->sent, now_us);
        LIST_EACH_SAFE(struct call, call, &reads->waiting, query.link) {
            if (call->deadline_us > now_us)
                continue;
            end_waiting(call);
            store_answer_later(call, call->status);
        }
        if (!list_is_empty(&reads->waiting) || !list_is_empty(&reads->sent))
            is_waited_for = true;
    }
    return is_waited_for;
}
