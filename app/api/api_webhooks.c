/* api_webhooks.c - the state of the endpoints of webhooks, and their last deliveries. */
#include "app/api/api_routes.h"

static void webhooks_on_states(enum rlock_status status,
                               const struct webhook_state *states, size_t count,
                               void *arg)
{
    struct api_request *request = arg;
    bool is_auditor = request->identity.role == AUTH_AUDITOR;

    if (status != RLOCK_OK)
        api_answer_failure(request, status, false);
    else
        api_answer_json(request, 200, json_print_webhooks(states, count, is_auditor),
                        NULL);
}

void api_list_webhooks(struct api_request *request)
{
    store_read_webhook_states(request->api->options.store, webhooks_on_states, request);
}

static void webhooks_on_deliveries(enum rlock_status status,
                                   const struct webhook_delivery *deliveries,
                                   size_t count, void *arg)
{
    if (status != RLOCK_OK)
        api_answer_failure(arg, status, false);
    else
        api_answer_json(arg, 200, json_print_deliveries(deliveries, count), NULL);
}

void api_list_deliveries(struct api_request *request)
{
    store_read_deliveries(request->api->options.store, request->id,
                          webhooks_on_deliveries, request);
}
