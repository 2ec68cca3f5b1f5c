/* store_webhooks.c - the endpoints of the webhooks. */
#include "app/store/store_impl.h"

#include <stdlib.h>
#include <string.h>

enum webhook_column {
    WEBHOOK_ID,
    WEBHOOK_VERSION,
    WEBHOOK_FENCE,
    WEBHOOK_URL,
    WEBHOOK_SECRET,
    WEBHOOK_FIRST,
    WEBHOOK_NUMBER,
};

static struct webhook decode_webhook(const PGresult *result, int row)
{
    return (struct webhook){
        .id = result_int64(result, row, WEBHOOK_ID),
        .version = result_int64(result, row, WEBHOOK_VERSION),
        .fence = result_int64(result, row, WEBHOOK_FENCE),
        .url = result_text(result, row, WEBHOOK_URL).bytes,
        .secret = result_text(result, row, WEBHOOK_SECRET).bytes,
        .position = {result_int64(result, row, WEBHOOK_FIRST),
                     result_int64(result, row, WEBHOOK_NUMBER)},
    };
}

static void store_on_webhooks(struct store_query *query, enum rlock_status status,
                              const PGresult *result, const struct rlock_err *why UNUSED)
{
    struct rows_call *call = list_item(query, struct rows_call, call.query);
    int rows = PQntuples(result);
    struct webhook *webhooks = rows > 0 ? calloc((size_t)rows, sizeof(*webhooks)) : NULL;

    if (rows > 0 && webhooks == NULL)
        status = RLOCK_NO_MEMORY;
    for (int row = 0; status == RLOCK_OK && row < rows; row++)
        webhooks[row] = decode_webhook(result, row);
    call->callback.webhooks(status, webhooks, status == RLOCK_OK ? (size_t)rows : 0,
                            call->arg);
    free(webhooks);
    store_call_free(&call->call);
}

void store_list_webhooks(struct store *store, store_webhooks_cb callback, void *arg)
{
    struct rows_call *call = store_rows_call_new(store, store_on_webhooks, arg);

    call->callback.webhooks = callback;
    store_read(&call->call, STATEMENT_LIST_WEBHOOKS, STORE_WEBHOOKS_MAX);
}

static void store_on_webhook_noted(struct store_query *query, enum rlock_status status,
                                   const PGresult *result,
                                   const struct rlock_err *why UNUSED)
{
    struct rows_call *call = list_item(query, struct rows_call, call.query);
    bool is_disabled = false;

    if (status == RLOCK_OK && PQgetisnull(result, 0, 0))
        status = RLOCK_NOT_OWNER;
    else if (status == RLOCK_OK)
        is_disabled = result_int64(result, 0, 0) != 0;
    call->callback.webhook_noted(status, is_disabled, call->arg);
    store_call_free(&call->call);
}

static void put_deliveries(struct store_params *params, const struct webhook_note *note)
{
    const struct webhook_delivery *deliveries = note->deliveries;
    size_t count = note->delivery_count;

    params_array_begin(params, PARAMS_INT64, count);
    for (size_t i = 0; i < count; i++)
        params_element_int64(params, deliveries[i].event_id);
    params_array_begin(params, PARAMS_TIME, count);
    for (size_t i = 0; i < count; i++)
        params_element_time(params, deliveries[i].at_us);
    params_array_begin(params, PARAMS_INT64, count);
    for (size_t i = 0; i < count; i++)
        params_element_int64(params, deliveries[i].duration_ms);
    params_array_begin(params, PARAMS_TEXT, count);
    for (size_t i = 0; i < count; i++) {
        const char *error = deliveries[i].error[0] != '\0' ? deliveries[i].error : NULL;

        params_element_text(params, &(struct text){error, strlen(deliveries[i].error)});
    }
}

void store_note_webhook(struct store *store, const struct webhook_note *note,
                        store_webhook_noted_cb callback, void *arg)
{
    const struct webhook *webhook = note->webhook;
    struct rows_call *call = store_rows_call_new(store, store_on_webhook_noted, arg);
    struct store_params *params = &store->params;

    call->callback.webhook_noted = callback;
    params_int64(params, webhook->id);
    params_int64(params, webhook->version);
    params_int64(params, webhook->fence);
    params_int64(params, webhook->position.first);
    params_int64(params, webhook->position.number);
    params_text(params, &(struct text){note->error,
                                       note->error != NULL ? strlen(note->error) : 0});
    put_deliveries(params, note);
    store_read(&call->call, STATEMENT_NOTE_WEBHOOK, 1);
}

enum state_column {
    STATE_ID,
    STATE_LAG,
    STATE_FAILING,
    STATE_DISABLED,
    STATE_URL,
    STATE_FIRST,
    STATE_NUMBER,
    STATE_FAILING_SINCE,
    STATE_ERROR,
    STATE_SECRET,
};

static struct webhook_state decode_state(const PGresult *result, int row)
{
    return (struct webhook_state){
        .id = result_int64(result, row, STATE_ID),
        .lag_us = result_int64(result, row, STATE_LAG),
        .failing_us = result_int64(result, row, STATE_FAILING),
        .is_disabled = result_int64(result, row, STATE_DISABLED) != 0,
        .url = result_text(result, row, STATE_URL).bytes,
        .first = result_int64(result, row, STATE_FIRST),
        .number = result_int64(result, row, STATE_NUMBER),
        .failing_since_us = result_time(result, row, STATE_FAILING_SINCE),
        .error = result_text(result, row, STATE_ERROR).bytes,
        .secret = result_text(result, row, STATE_SECRET).bytes};
}

static void store_on_webhook_states(struct store_query *query, enum rlock_status status,
                                    const PGresult *result,
                                    const struct rlock_err *why UNUSED)
{
    struct rows_call *call = list_item(query, struct rows_call, call.query);
    struct webhook_state states[STORE_WEBHOOKS_MAX];
    size_t count = 0;

    for (int row = 0; row < PQntuples(result) && count < STORE_WEBHOOKS_MAX; row++)
        states[count++] = decode_state(result, row);
    call->callback.webhook_states(status, states, count, call->arg);
    store_call_free(&call->call);
}

void store_read_webhook_states(struct store *store, store_webhook_states_cb callback,
                               void *arg)
{
    struct rows_call *call = store_rows_call_new(store, store_on_webhook_states, arg);

    call->callback.webhook_states = callback;
    store_read(&call->call, STATEMENT_WEBHOOK_STATES, STORE_WEBHOOKS_MAX);
}

/* A violated CHECK (23514) is that of the number of endpoints or of the position. */
static void store_on_webhook_changed(struct store_query *query, enum rlock_status status,
                                     const PGresult *result, const struct rlock_err *why)
{
    if (strcmp(result_sqlstate(result), "23514") == 0)
        status = RLOCK_INVALID;
    else if (result_violates(result, "used_key_pkey"))
        status = RLOCK_NOT_OWNER;
    else if (status == RLOCK_OK && PQntuples(result) == 0)
        status = RLOCK_NOT_FOUND;
    store_on_webhook_states(query, status, result, why);
}

static struct call *begin_change(struct store *store, store_webhook_states_cb callback,
                                 void *arg)
{
    struct rows_call *call = store_rows_call_new(store, store_on_webhook_changed, arg);

    call->callback.webhook_states = callback;
    return &call->call;
}

static void put_position(struct store_params *params,
                         const struct feed_position *position)
{
    if (position == NULL) {
        params_null(params);
        params_null(params);
        return;
    }
    params_int64(params, position->first);
    params_int64(params, position->number);
}

static void put_actor(struct store_params *params, const struct webhook_change *change)
{
    const char *actor = change->author.actor;

    params_text(params, &(struct text){actor, strlen(actor)});
}

void store_add_webhook(struct store *store, const struct webhook_change *change,
                       store_webhook_states_cb callback, void *arg)
{
    struct call *call = begin_change(store, callback, arg);
    struct store_params *params = &store->params;

    params_text(params, &change->url);
    params_text(params, &(struct text){change->secret, strlen(change->secret)});
    put_position(params, change->position);
    params_text(params, &change->author.key);
    put_actor(params, change);
    store_change_voucher(call, STATEMENT_WEBHOOK_ADD, 0);
}

void store_change_webhook(struct store *store, const struct webhook_change *change,
                          store_webhook_states_cb callback, void *arg)
{
    struct call *call = begin_change(store, callback, arg);
    struct store_params *params = &store->params;

    params_int64(params, change->webhook_id);
    params_int64(params, change->is_enabled);
    put_position(params, change->position);
    put_actor(params, change);
    store_change_voucher(call, STATEMENT_WEBHOOK_CHANGE, 0);
}

void store_remove_webhook(struct store *store, int64_t webhook_id,
                          store_webhook_states_cb callback, void *arg)
{
    struct call *call = begin_change(store, callback, arg);

    params_int64(&store->params, webhook_id);
    store_change_voucher(call, STATEMENT_WEBHOOK_REMOVE, 0);
}

static struct webhook_delivery decode_delivery(const PGresult *result, int row)
{
    struct webhook_delivery delivery = {.event_id = result_int64(result, row, 0),
                                        .at_us = result_time(result, row, 1),
                                        .duration_ms = result_int64(result, row, 2)};
    struct text error = result_text(result, row, 3);

    if (error.bytes != NULL)
        snprintf(delivery.error, sizeof(delivery.error), "%s", error.bytes);
    return delivery;
}

static void store_on_deliveries(struct store_query *query, enum rlock_status status,
                                const PGresult *result,
                                const struct rlock_err *why UNUSED)
{
    struct rows_call *call = list_item(query, struct rows_call, call.query);
    struct webhook_delivery deliveries[WEBHOOK_DELIVERIES_MAX];
    size_t count = 0;

    if (status == RLOCK_OK && PQntuples(result) == 0)
        status = RLOCK_NOT_FOUND;
    for (int row = 0; row < PQntuples(result) && count < WEBHOOK_DELIVERIES_MAX; row++) {
        if (!PQgetisnull(result, row, 0))
            deliveries[count++] = decode_delivery(result, row);
    }
    call->callback.deliveries(status, deliveries, count, call->arg);
    store_call_free(&call->call);
}

void store_read_deliveries(struct store *store, int64_t webhook_id,
                           store_deliveries_cb callback, void *arg)
{
    struct rows_call *call = store_rows_call_new(store, store_on_deliveries, arg);

    call->callback.deliveries = callback;
    params_int64(&store->params, webhook_id);
    store_read(&call->call, STATEMENT_WEBHOOK_DELIVERIES,
               WEBHOOK_DELIVERIES_MAX / SMALL_ROWS);
}
