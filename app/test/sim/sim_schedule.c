/*
 * sim_schedule.c - plans a schedule and runs it.
 *
 * A schedule begins with requests and faults. Then all faults end, and the services must drain: all
 * requests are answered, nothing is in flight, no lock is left, and overdue orders have expired.
 * After that, each service must place a new order. When the services have closed, all their memory
 * must be free.
 */
#include "app/test/sim/sim_schedule.h"

#include "app/core/metrics.h"
#include "app/test/sim/sim.h"
#include "app/test/sim/sim_check.h"
#include "app/test/sim/sim_memory.h"
#include "app/test/sim/sim_net.h"
#include "app/test/sim/sim_postgres.h"
#include "app/test/sim/sim_redis.h"
#include "app/test/sim/sim_redis_scripts.h"
#include "app/test/sim/sim_service.h"
#include "app/test/sim/sim_shoppers.h"

#include <inttypes.h>
#include <string.h>

#define WARM_UP_US    (40 * MS)
#define RECOVERY_US   (3 * S) /* time from the last fault to normal service */
#define EXPIRY_US     (2 * S) /* an overdue order must expire within this time */
#define PROBE_USER    9000
#define PROBE_VOUCHER (SIM_VOUCHERS_MAX - 1)

/* clang-format off */
#define FAULTS(X) \
    X(REDIS_HANG)      X(REDIS_RESTART)   X(REDIS_SAVE)     X(REDIS_CLOCK) \
    X(REDIS_SCRIPTS)   X(REDIS_REFUSE)    X(REDIS_CUT)      X(REDIS_HOLD) \
    X(REDIS_PART)      X(REDIS_DISTURB) \
    X(POSTGRES_HANG)   X(POSTGRES_CRASH)  X(POSTGRES_TERMINATE) X(POSTGRES_CUT) \
    X(POSTGRES_HOLD)   X(POSTGRES_PART)   X(POSTGRES_SLOW)   X(POSTGRES_FAIL) \
    X(POSTGRES_LOWER)  X(POSTGRES_REFUSE) \
    X(ROW_HELD)        X(NOTIFY_LOST)     X(RESTOCK)        X(MOVE_END) \
    X(PAUSE)           X(STOP)            X(KILL)
/* clang-format on */

#define X(name) FAULT_##name,
enum fault { FAULTS(X) FAULT_COUNT };
#undef X

#define X(name) #name,
static const char *const fault_names[] = {FAULTS(X)};
#undef X

static struct plan {
    struct sim_service_options service;
    struct sim_net_options net;
    struct sim_shoppers_options shoppers;
    size_t service_count, voucher_count;
    int64_t faults_end_us;
    int64_t shopper_count;
    int64_t refused_user_id;
    int64_t commit_us;
    int64_t span_us;
    bool has_slow_net;
    bool is_duel;
    bool has_fault[FAULT_COUNT];
} plan;

static const struct sim_net_options fast_net = {.least_us = 30, .most_us = 200};

/* -- the plan -- */

static bool has_any(enum fault first, enum fault last)
{
    bool is_any = false;

    for (int fault = (int)first; fault <= (int)last; fault++)
        is_any |= plan.has_fault[fault];
    return is_any;
}

static uint32_t one_of(const uint32_t *values, size_t count)
{
    return values[sim_below(count)];
}

#define ONE_OF(...)                                                                      \
    one_of((const uint32_t[]){__VA_ARGS__},                                              \
           sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void plan_service(void)
{
    plan.service = (struct sim_service_options){
        .order_timeout_ms = ONE_OF(100, 150, 200, 300, 500, 1000),
        .lease_ms = ONE_OF(100, 150, 300, 1000, 10000),
        .lock_wait_ms = ONE_OF(0, 0, 20, 50, 200),
        .lanes = ONE_OF(1, 1, 2, 4),
        .batch_max = ONE_OF(1, 2, 4, 32),
        .vouchers_max = ONE_OF(1, 2, 128, 128),
        .queue_max = ONE_OF(2, 8, 64, 64),
        .bypass_locks = sim_chance(20),
        .early_release = sim_chance(60),
        .on_requests = sim_shoppers_on_requests,
        .pending = sim_shoppers_pending,
    };
    plan.service_count = sim_chance(35) ? 2 : 1;
    plan.service.workers = sim_chance(50) ? 2 : 1;
    plan.commit_us = ONE_OF(1, 1, 5, 20) * MS;
    plan.voucher_count = 1 + sim_below(SIM_VOUCHERS_MAX - 1);
    plan.shopper_count = sim_between(1, 5);
    plan.span_us = ONE_OF(0, 1, 5, 20, 100, 300) * MS;
    if (sim_chance(4))
        plan.span_us = 3 * S; /* longer than an entry of the catalogue is valid */
}

/* In a duel one shopper orders one voucher at two services. Both lose locks, so only the fences
   decide. */
static void plan_duel(void)
{
    plan.is_duel = sim_chance(8);
    if (!plan.is_duel)
        return;
    plan.service_count = 2;
    plan.voucher_count = 1;
    plan.shopper_count = 1;
    plan.service.lease_ms = 100;
    plan.service.order_timeout_ms = 1000;
    plan.service.lock_wait_ms = 200;
    plan.span_us = 300 * MS;
}

static void plan_net(void)
{
    plan.net = fast_net;
    plan.has_slow_net = sim_chance(15);
    if (!plan.has_slow_net)
        return;
    plan.net.most_us = 2 * MS;
    plan.net.slow_percent = 3;
    plan.net.slow_us = (int64_t)plan.service.order_timeout_ms * 1000;
}

static void plan_vouchers(void)
{
    int64_t now_us = sim_sql_now_us();

    sim_tables.voucher_count = SIM_VOUCHERS_MAX;
    for (size_t i = 0; i < SIM_VOUCHERS_MAX; i++) {
        struct sim_voucher *voucher = &sim_tables.vouchers[i];

        *voucher =
            (struct sim_voucher){.id = (int64_t)i + 1,
                                 .exists = i < plan.voucher_count,
                                 .version = 1,
                                 .price_cents = 100,
                                 .stock_left = sim_between(0, 6),
                                 .per_user_limit = plan.is_duel ? 2 : sim_between(1, 2),
                                 .begin_us = now_us - S,
                                 .end_us = now_us + 3600 * S,
                                 .pay_within_us = 900 * S};
        if (sim_chance(10))
            voucher->begin_us = now_us + sim_between(0, 100 * MS);
        if (sim_chance(10))
            voucher->end_us = now_us + sim_between(20 * MS, 200 * MS);
        voucher->is_lottery = !plan.is_duel && sim_chance(10);
        if (voucher->is_lottery && sim_chance(50))
            voucher->end_us = now_us + sim_between(20 * MS, 200 * MS);
        if (plan.service.expires_orders)
            voucher->pay_within_us = sim_between(10 * MS, 600 * MS);
        voucher->stock_total = voucher->stock_left;
    }
    sim_tables.vouchers[PROBE_VOUCHER] = (struct sim_voucher){.id = PROBE_VOUCHER + 1,
                                                              .exists = true,
                                                              .version = 1,
                                                              .price_cents = 100,
                                                              .stock_total = 100,
                                                              .stock_left = 100,
                                                              .per_user_limit = 1,
                                                              .begin_us = now_us - S,
                                                              .end_us = now_us + 3600 * S,
                                                              .pay_within_us = 900 * S};
    for (size_t i = 0; i < SIM_VOUCHERS_MAX; i++)
        sim_check_voucher(i);
    sim_sql_flush();
}

static void plan_shoppers(void)
{
    size_t count = (size_t)sim_between(2, 12);
    plan.refused_user_id = sim_between(1, plan.shopper_count);
    plan.shoppers = (struct sim_shoppers_options){.retry_percent = ONE_OF(0, 20, 60),
                                                  .change_percent = ONE_OF(0, 0, 30, 60),
                                                  .pause_us = ONE_OF(1, 30, 150) * MS,
                                                  .requests_max = 2 * count};
    sim_shoppers_begin(&plan.shoppers);
    for (size_t i = 0; i < count; i++) {
        struct sim_purchase purchase = {
            .user_id = sim_between(1, plan.shopper_count),
            .voucher_id = sim_between(
                1, (int64_t)(sim_chance(4) ? SIM_VOUCHERS_MAX - 1 : plan.voucher_count)),
            .key = sim_chance(50) ? (unsigned)sim_between(1, 4) : 0};

        sim_shoppers_buy(&purchase,
                         sim_now_us() + WARM_UP_US + sim_between(0, plan.span_us));
    }
    plan.faults_end_us = WARM_UP_US + plan.span_us + sim_between(0, 100 * MS);
}

/* -- faults -- */

static void start_service(void)
{
    sim_service_start(&plan.service);
}

/* The workers of a random instance. */
static size_t random_instance(struct sim_service *ret_workers[SIM_SERVICES_MAX])
{
    const struct sim_service *chosen = sim_service_random();
    size_t count = sim_service_all(ret_workers), same = 0;

    for (size_t i = 0; i < count; i++) {
        if (sim_service_is_same(ret_workers[i], chosen))
            ret_workers[same++] = ret_workers[i];
    }
    return same;
}

static void stop_service(void)
{
    struct sim_service *workers[SIM_SERVICES_MAX];
    size_t count = random_instance(workers);

    for (size_t i = 0; i < count; i++)
        sim_service_stop(workers[i]);
    start_service();
}

static void kill_service(void)
{
    struct sim_service *workers[SIM_SERVICES_MAX];
    size_t count = random_instance(workers);

    for (size_t i = 0; i < count; i++) {
        sim_service_kill(workers[i]);
        sim_shoppers_lose(workers[i]);
    }
    start_service();
}

static void pause_service(int64_t until_us)
{
    struct sim_service *workers[SIM_SERVICES_MAX];
    size_t count = random_instance(workers);

    for (size_t i = 0; i < count; i++) {
        sim_loop_pause(sim_service_loop(workers[i]), until_us);
        sim_shoppers_pause(workers[i], until_us);
    }
}

static const char *random_refusal(void)
{
    static const char *const refusals[] = {
        "BUSY Redis is busy running a script.", "READONLY You can't write.",
        "OOM command not allowed.", "LOADING Redis is loading the dataset in memory"};

    return refusals[sim_below(4)];
}

static const char *random_sqlstate(void)
{
    static const char *const states[] = {"40P01", "55P03", "53200", "25006", "57P03"};

    return states[sim_below(5)];
}

static void schedule_on_redis_fault(enum fault fault, int64_t until_us)
{
    switch (fault) {
    case FAULT_REDIS_HANG:
        sim_redis_hang(until_us);
        break;
    case FAULT_REDIS_RESTART:
        sim_redis_restart(until_us, (enum sim_redis_data)sim_below(3));
        break;
    case FAULT_REDIS_SAVE:
        sim_keys_save();
        break;
    case FAULT_REDIS_CLOCK:
        sim_keys_step_clock(sim_between(-2 * S, 2 * S));
        break;
    case FAULT_REDIS_SCRIPTS:
        sim_scripts_forget();
        break;
    case FAULT_REDIS_REFUSE:
        sim_redis_refuse(random_refusal(), until_us);
        break;
    case FAULT_REDIS_CUT:
        sim_redis_cut();
        break;
    case FAULT_REDIS_HOLD:
        sim_redis_hold(until_us);
        break;
    case FAULT_REDIS_PART:
        sim_redis_part(sim_service_number(sim_service_random()), until_us);
        break;
    default:
        sim_redis_disturb();
    }
}

static void schedule_on_postgres_fault(enum fault fault, int64_t until_us)
{
    switch (fault) {
    case FAULT_POSTGRES_HANG:
        sim_postgres_hang(until_us);
        break;
    case FAULT_POSTGRES_CRASH:
        sim_postgres_crash(until_us);
        break;
    case FAULT_POSTGRES_TERMINATE:
        sim_postgres_terminate();
        break;
    case FAULT_POSTGRES_CUT:
        sim_postgres_cut();
        break;
    case FAULT_POSTGRES_HOLD:
        sim_postgres_hold(until_us);
        break;
    case FAULT_POSTGRES_PART:
        sim_postgres_part(sim_service_number(sim_service_random()), until_us);
        break;
    case FAULT_POSTGRES_SLOW:
        sim_postgres_slow(until_us - sim_now_us(), until_us);
        break;
    case FAULT_POSTGRES_FAIL:
        sim_postgres_fail(random_sqlstate(), ONE_OF(20, 60, 100), until_us);
        break;
    case FAULT_POSTGRES_LOWER:
        sim_postgres_lower(until_us);
        break;
    default:
        sim_postgres_refuse_shopper(plan.refused_user_id);
    }
}

static void schedule_on_other_fault(enum fault fault, int64_t until_us)
{
    size_t voucher = sim_below(SIM_VOUCHERS_MAX - 1);

    switch (fault) {
    case FAULT_ROW_HELD:
        sim_postgres_run(SQL_HOLD, voucher, until_us - sim_now_us());
        break;
    case FAULT_NOTIFY_LOST:
        sim_postgres_lose_notifications(ONE_OF(30, 100));
        break;
    case FAULT_RESTOCK:
        sim_postgres_run(SQL_RESTOCK, voucher, sim_between(-2, 4));
        break;
    case FAULT_MOVE_END:
        sim_postgres_run(SQL_MOVE_END, voucher, sim_between(-10 * MS, 100 * MS));
        break;
    case FAULT_PAUSE:
        pause_service(until_us);
        break;
    case FAULT_STOP:
        stop_service();
        break;
    default:
        kill_service();
    }
}

static void schedule_on_fault(void *subject UNUSED, uint64_t number)
{
    enum fault fault = (enum fault)number;
    int64_t until_us =
        sim_now_us() +
        sim_between(0, (int64_t)plan.service.order_timeout_ms * ONE_OF(200, 1000, 2000));

    SIM_TRACE("fault: %s until %.3f ms", fault_names[fault],
              (double)(sim_elapsed_us() + until_us - sim_now_us()) / 1000);
    if (fault <= FAULT_REDIS_DISTURB)
        schedule_on_redis_fault(fault, until_us);
    else if (fault <= FAULT_POSTGRES_REFUSE)
        schedule_on_postgres_fault(fault, until_us);
    else
        schedule_on_other_fault(fault, until_us);
}

static int64_t fault_us(void)
{
    int64_t last_us = WARM_UP_US + plan.span_us + 20 * MS;

    if (last_us > plan.faults_end_us)
        last_us = plan.faults_end_us;
    return sim_now_us() + sim_between(sim_chance(15) ? 0 : WARM_UP_US, last_us);
}

static void plan_fault(enum fault fault, int64_t at_us)
{
    plan.has_fault[fault] = true;
    sim_at(at_us, schedule_on_fault, NULL, (uint64_t)fault);
}

static void plan_duel_faults(void)
{
    static const enum fault losses[] = {FAULT_REDIS_CLOCK, FAULT_REDIS_RESTART,
                                        FAULT_REDIS_PART, FAULT_PAUSE};
    int64_t at_us = fault_us();

    plan_fault(FAULT_POSTGRES_PART, at_us);
    plan_fault(losses[sim_below(4)], at_us + sim_between(0, 20 * MS));
}

static void plan_faults(void)
{
    uint64_t count = sim_chance(15) ? 0 : 1 + sim_below(4);

    memset(plan.has_fault, 0, sizeof(plan.has_fault));
    if (plan.is_duel) {
        plan_duel_faults();
        return;
    }
    for (; count > 0; count--)
        plan_fault((enum fault)sim_below(FAULT_COUNT), fault_us());
}

static void begin_checks(void)
{
    bool is_stopped = has_any(FAULT_PAUSE, FAULT_KILL) || plan.has_slow_net;
    bool is_slow = plan.commit_us * 20 > (int64_t)plan.service.order_timeout_ms * 1000;
    bool has_postgres_fault =
        has_any(FAULT_POSTGRES_HANG, FAULT_ROW_HELD) || is_stopped || is_slow;
    struct sim_check_options options = {
        .order_timeout_ms = plan.service.order_timeout_ms,
        .may_be_unavailable =
            has_any(FAULT_REDIS_HANG, FAULT_REDIS_DISTURB) || has_postgres_fault,
        .may_be_unknown = has_postgres_fault,
        .refused_user_id =
            plan.has_fault[FAULT_POSTGRES_REFUSE] ? plan.refused_user_id : 0,
        .may_bypass_locks = plan.service.bypass_locks,
        .may_lose_locks = has_any(FAULT_REDIS_HANG, FAULT_REDIS_DISTURB) || is_stopped};

    sim_check_begin(&options);
}

/* -- running -- */

static void heal(void)
{
    SIM_TRACE("healed");
    sim_net_begin(&fast_net);
    sim_redis_heal();
    sim_postgres_heal();
    sim_shoppers_stop();
}

static size_t in_flight(void)
{
    struct sim_service *services[SIM_SERVICES_MAX];
    size_t count = sim_service_all(services), sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += sim_service_in_flight(services[i]);
    return sum;
}

static bool is_drained(void)
{
    return sim_shoppers_waiting() == 0 && in_flight() == 0;
}

static bool are_all_up(void)
{
    struct sim_service *services[SIM_SERVICES_MAX];
    size_t count = sim_service_all(services);

    for (size_t i = 0; i < count; i++) {
        if (!sim_service_is_up(services[i]))
            return false;
    }
    return true;
}

static bool are_locks_gone(void)
{
    return sim_keys_count_locks() == 0;
}

static bool is_overdue(const struct sim_order *order)
{
    return order->status == ORDER_UNPAID &&
           order->expires_us + EXPIRY_US < sim_sql_now_us();
}

static bool is_expiry_done(void)
{
    for (size_t i = 0; i < sim_tables.voucher_count; i++) {
        if (sim_sql_is_draw_due(&sim_tables.vouchers[i]))
            return false;
    }
    for (size_t i = 0; i < sim_tables.order_count; i++) {
        if (sim_tables.orders[i].status == ORDER_UNPAID &&
            sim_tables.orders[i].expires_us < sim_sql_now_us() + 10 * S)
            return false;
    }
    return true;
}

static void check_expired(void)
{
    for (size_t i = 0; i < sim_tables.order_count; i++) {
        if (is_overdue(&sim_tables.orders[i]))
            sim_fail("order %" PRId64 " is overdue and has not expired",
                     sim_tables.orders[i].id);
    }
}

static void run_for(int64_t us)
{
    int64_t until_us = sim_now_us() + us;

    while (sim_step(until_us))
        ;
}

static void run_until(bool (*is_done)(void), int64_t us, const char *what)
{
    int64_t until_us = sim_now_us() + us;

    while (!is_done()) {
        if (!sim_step(until_us))
            sim_fail("%s is not so after %" PRId64 " ms: %zu unanswered, %zu in flight, "
                     "%zu locks",
                     what, us / 1000, sim_shoppers_waiting(), in_flight(),
                     sim_keys_count_locks());
    }
}

static void probe(void)
{
    int64_t until_us = sim_now_us() + RECOVERY_US;
    struct sim_purchase purchase = {.user_id = PROBE_USER,
                                    .voucher_id = PROBE_VOUCHER + 1};

    run_until(are_all_up, RECOVERY_US, "all servers up");
    do {
        if (sim_now_us() > until_us)
            sim_fail("after all faults an order is answered %s",
                     metrics_outcome_names[sim_shoppers_last_outcome()]);
        sim_shoppers_buy(&purchase, sim_now_us());
        purchase.user_id++;
        run_for(50 * MS);
        run_until(is_drained, RECOVERY_US, "drained after a probe");
    } while (sim_shoppers_last_outcome() != OUTCOME_PLACED);
}

static void stop_services(void)
{
    struct sim_service *services[SIM_SERVICES_MAX];
    size_t count = sim_service_all(services);

    for (size_t i = 0; i < count; i++)
        sim_service_stop(services[i]);
    run_until(sim_services_are_closed, 2 * S, "closed");
    if (plan.has_fault[FAULT_KILL] || sim_memory_blocks() == 0)
        return;
    sim_memory_print_blocks();
    sim_fail("%zu blocks of memory are not free", sim_memory_blocks());
}

/* How long a lock may last after the last request. A lock lasts until its lease ends if its owner
   was killed, or if its client has given up twice before Redis granted it. */
static int64_t lock_life_us(void)
{
    int64_t lease_us = (int64_t)plan.service.lease_ms * 1000;

    if (plan.has_fault[FAULT_REDIS_CLOCK])
        lease_us += 5 * S;
    if (plan.has_slow_net || has_any(FAULT_PAUSE, FAULT_KILL) ||
        has_any(FAULT_REDIS_HANG, FAULT_REDIS_CLOCK) ||
        plan.has_fault[FAULT_REDIS_REFUSE])
        return lease_us + RECOVERY_US;
    if (has_any(FAULT_REDIS_SCRIPTS, FAULT_REDIS_DISTURB))
        return RECOVERY_US;
    return 10 * MS;
}

static void drain(void)
{
    int64_t timeout_us = (int64_t)plan.service.order_timeout_ms * 1000;
    bool is_calm = !has_any(FAULT_REDIS_HANG, FAULT_REDIS_DISTURB) &&
                   !has_any(FAULT_PAUSE, FAULT_KILL) && !plan.has_slow_net;

    run_until(is_drained, 3 * timeout_us + RECOVERY_US, "drained");
    run_until(are_locks_gone, lock_life_us(), "no lock left");
    if (sim_chance(30) || !is_calm)
        probe();
    if (plan.service.expires_orders)
        run_until(is_expiry_done, EXPIRY_US + RECOVERY_US, "expired and drawn");
    check_expired();
    sim_shoppers_check();
}

void sim_schedule_run(uint64_t seed)
{
    sim_memory_reset();
    sim_begin(seed);
    plan_service();
    plan.service.expires_orders = sim_chance(20);
    plan_duel();
    plan_net();
    sim_services_begin();
    sim_net_begin(&plan.net);
    sim_redis_begin();
    sim_postgres_begin(&(struct sim_postgres_options){.run_least_us = 50,
                                                      .run_most_us = 500,
                                                      .commit_least_us = 50,
                                                      .commit_most_us = plan.commit_us});
    plan_shoppers();
    plan_faults();
    begin_checks();
    plan_vouchers();
    for (size_t i = 0; i < plan.service_count; i++)
        start_service();
    run_for(plan.faults_end_us);
    heal();
    drain();
    stop_services();
}
