/* cmd_deliver.c - `seckill deliver`: sends webhooks until a signal ends it. */
#include "app/cmd/cmd.h"
#include "app/core/log.h"
#include "app/deliver/deliverer.h"

#include <signal.h>
#include <stdlib.h>

struct delivery {
    uv_loop_t loop;
    uv_prepare_t turn_end;
    uv_signal_t terminate, interrupt;
    struct metrics metrics;
    struct address_networks allowed;
    struct store *store;
    struct feed *feed;
    struct rlock_client *locks;
    struct deliverer *deliverer;
};

static void deliver_on_voucher_changed(int64_t voucher_id UNUSED, void *arg UNUSED)
{
}

static void report(const char *dependency, bool is_up, const struct rlock_err *why)
{
    if (is_up)
        log_event(LOG_INFO, "dependency_up", "dependency=%s worker=0", dependency);
    else
        log_event(LOG_WARN, "dependency_down", "dependency=%s worker=0 why=\"%s\"",
                  dependency, LOG_PLAIN(why->text));
}

static void deliver_on_store_state(bool is_up, const struct rlock_err *why,
                                   void *arg UNUSED)
{
    report("postgres", is_up, why);
}

static void deliver_on_locks_state(bool is_up, const struct rlock_err *why,
                                   void *arg UNUSED)
{
    report("redis", is_up, why);
}

static void deliver_on_turn_end(uv_prepare_t *prepare)
{
    struct delivery *delivery = prepare->data;

    store_flush(delivery->store);
}

static void close_all(struct delivery *delivery)
{
    if (delivery->deliverer != NULL)
        deliverer_stop(delivery->deliverer);
    if (delivery->feed != NULL)
        feed_drain(delivery->feed);
    store_close(delivery->store, NULL, NULL);
    feed_close(delivery->feed);
    rlock_client_close(delivery->locks, NULL, NULL);
    uv_close((uv_handle_t *)&delivery->turn_end, NULL);
    uv_close((uv_handle_t *)&delivery->terminate, NULL);
    uv_close((uv_handle_t *)&delivery->interrupt, NULL);
}

static void deliver_on_signal(uv_signal_t *handle, int number)
{
    log_event(LOG_INFO, "draining", "signal=%d", number);
    close_all(handle->data);
}

static void start_handles(struct delivery *delivery)
{
    uv_prepare_init(&delivery->loop, &delivery->turn_end);
    uv_signal_init(&delivery->loop, &delivery->terminate);
    uv_signal_init(&delivery->loop, &delivery->interrupt);
    delivery->turn_end.data = delivery->terminate.data = delivery->interrupt.data =
        delivery;
}

static enum rlock_status open_parts(struct delivery *delivery,
                                    const struct config *config, struct rlock_err *reterr)
{
    uint32_t timeout_ms = (uint32_t)config->order_timeout_ms / 2;
    const struct rlock_client_options locks = {.loop = &delivery->loop,
                                               .redis_url = config->redis_url,
                                               .timeout_ms = timeout_ms,
                                               .on_state = deliver_on_locks_state};
    const struct store_options store = {.loop = &delivery->loop,
                                        .database_url = config->database_url,
                                        .timeout_ms = timeout_ms,
                                        .required = DURABILITY_LOCAL +
                                                    (unsigned)config->require_durability,
                                        .metrics = &delivery->metrics,
                                        .on_voucher_changed = deliver_on_voucher_changed,
                                        .on_state = deliver_on_store_state};
    enum rlock_status status = rlock_client_open(&locks, &delivery->locks, reterr);

    if (status != RLOCK_OK) {
        err_prefix(reterr, "SECKILL_REDIS_URL");
        return status;
    }
    status = store_open(&store, &delivery->store, reterr);
    if (status != RLOCK_OK)
        return status;
    delivery->feed = feed_open(&delivery->loop, delivery->store, &delivery->metrics);
    if (delivery->feed == NULL)
        return RLOCK_NO_MEMORY;
    delivery->deliverer = deliverer_open(
        &(struct deliverer_options){.loop = &delivery->loop,
                                    .store = delivery->store,
                                    .feed = delivery->feed,
                                    .locks = delivery->locks,
                                    .allowed = &delivery->allowed,
                                    .lease_ms = (uint32_t)config->lock_lease_ms});
    return delivery->deliverer != NULL ? RLOCK_OK : RLOCK_NO_MEMORY;
}

static enum rlock_status deliver(struct delivery *delivery, const struct config *config,
                                 struct rlock_err *reterr)
{
    enum rlock_status status;

    start_handles(delivery);
    status = open_parts(delivery, config, reterr);
    if (status == RLOCK_OK) {
        uv_prepare_start(&delivery->turn_end, deliver_on_turn_end);
        uv_signal_start(&delivery->terminate, deliver_on_signal, SIGTERM);
        uv_signal_start(&delivery->interrupt, deliver_on_signal, SIGINT);
        log_event(LOG_INFO, "delivering", "%s", "");
    } else {
        close_all(delivery);
    }
    uv_run(&delivery->loop, UV_RUN_DEFAULT);
    deliverer_free(delivery->deliverer);
    return status;
}

static int cmd_deliver(int argc, char **argv UNUSED, const struct config *config,
                       struct rlock_err *reterr)
{
    struct delivery delivery = {0};
    enum rlock_status status;

    if (argc > 1)
        return EXIT_USAGE;
    status = address_networks_parse(config->webhook_networks, &delivery.allowed, reterr);
    if (status != RLOCK_OK) {
        err_prefix(reterr, "SECKILL_WEBHOOK_NETWORKS");
        return EXIT_USAGE;
    }
    log_set_level((enum log_level)config->log_level);
    signal(SIGPIPE, SIG_IGN);
    if (uv_loop_init(&delivery.loop) != 0)
        return EXIT_FAILED;
    status = deliver(&delivery, config, reterr);
    uv_loop_close(&delivery.loop);
    return exit_code_of(status);
}

const struct command command_deliver = {
    "deliver", "send webhooks until SIGTERM or SIGINT", cmd_deliver, true, false};
