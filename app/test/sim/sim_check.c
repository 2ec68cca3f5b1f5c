/* sim_check.c - an answer is true if it was true for the tables at some earlier moment. */
#include "app/test/sim/sim_check.h"

#include "app/core/metrics.h"
#include "app/sale/catalogue.h"
#include "app/test/sim/sim.h"
#include "app/test/sim/sim_redis_scripts.h"

#include <inttypes.h>
#include <string.h>

#define STATES_MAX 512
#define GRANTS_MAX 1024
/* how late an answer may be: the checkout looks for passed deadlines this often */
#define SLACK_US  (25 * MS)
#define WAKE_US   (40 * MS) /* how long a waiter may need to learn that a lock is free */
#define TRIES_MAX 12
#define SLOW_US   (10 * MS) /* a failed transaction that took so long is not counted */

static struct {
    struct sim_check_options options;
    size_t state_count, durable_count;
    struct state {
        int64_t at_us;
        size_t voucher;
        struct sim_voucher row;
    } states[STATES_MAX];
    size_t grant_count;
    struct grant {
        int64_t user_id, fence;
        unsigned service;
        /* when the lock was last found busy; only used if the fence is 0 */
        int64_t busy_us;
        bool is_released;
        unsigned tries;
        int64_t first_try_us;
    } grants[GRANTS_MAX];
    uint64_t expired, reported_expired;
} check;

void sim_check_begin(const struct sim_check_options *options)
{
    check.options = *options;
    check.state_count = check.durable_count = check.grant_count = 0;
    check.expired = check.reported_expired = 0;
}

/* -- locks -- */

/* Returns the latest grant with this fence. Redis may grant a fence twice if the first grant was
   lost in a restart and the clock of the server was set back. */
static struct grant *find_grant(int64_t user_id, int64_t fence, unsigned service)
{
    for (size_t i = check.grant_count; i-- > 0;) {
        struct grant *grant = &check.grants[i];

        if (grant->user_id == user_id && grant->fence == fence &&
            (fence != 0 || grant->service == service))
            return grant;
    }
    return NULL;
}

static struct grant *add_grant(int64_t user_id, unsigned service, int64_t fence)
{
    struct grant *grant = &check.grants[check.grant_count++];

    if (check.grant_count > GRANTS_MAX)
        sim_fail("too many locks in one schedule");
    *grant = (struct grant){.user_id = user_id, .service = service, .fence = fence};
    return grant;
}

void sim_check_granted(int64_t user_id, unsigned service, int64_t fence)
{
    add_grant(user_id, service, fence);
}

void sim_check_busy(int64_t user_id, unsigned service)
{
    struct grant *grant = find_grant(user_id, 0, service);

    if (grant == NULL)
        grant = add_grant(user_id, service, 0);
    grant->busy_us = sim_now_us();
}

void sim_check_released(int64_t user_id, int64_t fence, bool is_early)
{
    struct grant *grant = find_grant(user_id, fence, 0);

    if (grant != NULL && is_early)
        grant->is_released = true;
}

/* -- transactions -- */

void sim_check_tried(int64_t user_id, int64_t fence)
{
    struct grant *grant = fence == 0 ? NULL : find_grant(user_id, fence, 0);

    if (grant == NULL)
        return;
    if (grant->tries++ == 0)
        grant->first_try_us = sim_now_us();
    if (grant->tries > TRIES_MAX + (sim_now_us() - grant->first_try_us) / SLOW_US)
        sim_fail("an order of shopper %" PRId64 " takes part in %u transactions", user_id,
                 grant->tries);
}

static void check_fence(struct sim_order *order, unsigned service)
{
    const struct grant *grant = find_grant(order->user_id, order->fence, service);

    if (order->fence == 0 && check.options.may_bypass_locks)
        return;
    if (order->fence == 0 || grant == NULL || grant->service != service)
        sim_fail("service %u places order %" PRId64 " with fence %" PRId64
                 ", which it was not granted",
                 service, order->id, order->fence);
    order->is_unlocked = grant->is_released;
    for (size_t i = 0; i < sim_tables.order_count; i++) {
        const struct sim_order *other = &sim_tables.orders[i];

        if (other != order && other->user_id == order->user_id &&
            other->voucher == order->voucher && other->fence >= order->fence)
            sim_fail("order %" PRId64 " has fence %" PRId64 ", order %" PRId64
                     " before it has %" PRId64,
                     order->id, order->fence, other->id, other->fence);
    }
}

static void check_winner(struct sim_order *order)
{
    if (!(sim_tables.vouchers[order->voucher].entered >> order->user_id & 1))
        sim_fail("shopper %" PRId64 " has won, and has no entry", order->user_id);
    order->is_claimed = true; /* by no request */
}

void sim_check_inserted(struct sim_order *order, unsigned service)
{
    SIM_TRACE("postgres: order %" PRId64 " of shopper %" PRId64 ", voucher %" PRId64
              ", fence %" PRId64 ", key %.*s",
              order->id, order->user_id, sim_tables.vouchers[order->voucher].id,
              order->fence, (int)order->key_len, order->key);
    if (sim_tables.vouchers[order->voucher].is_lottery)
        check_winner(order);
    else
        check_fence(order, service);
}

/* If a shopper has entered since the last state of the voucher, the sale must have been open. */
static void check_entries(size_t at)
{
    const struct sim_voucher *row = &sim_tables.vouchers[at], *before = NULL;

    for (size_t i = check.state_count; before == NULL && i-- > 0;) {
        if (check.states[i].voucher == at)
            before = &check.states[i].row;
    }
    if (before == NULL || before->entered == row->entered)
        return;
    if (sim_sql_has_draw_begun(before) || row->entered_us >= row->end_us)
        sim_fail("a shopper has entered lottery %" PRId64 " after its end", row->id);
}

void sim_check_voucher(size_t at)
{
    check_entries(at);
    if (check.state_count == STATES_MAX)
        sim_fail("too many changes of vouchers in one schedule");
    check.states[check.state_count++] =
        (struct state){sim_now_us(), at, sim_tables.vouchers[at]};
    SIM_TRACE("postgres: voucher %" PRId64 ": %" PRId64 " of %" PRId64
              " left, version %" PRId64 ", begins %" PRId64 ", ends %" PRId64,
              sim_tables.vouchers[at].id, sim_tables.vouchers[at].stock_left,
              sim_tables.vouchers[at].stock_total, sim_tables.vouchers[at].version,
              sim_tables.vouchers[at].begin_us, sim_tables.vouchers[at].end_us);
}

void sim_check_flushed(void)
{
    check.durable_count = check.state_count;
}

void sim_check_crashed(void)
{
    check.state_count = check.durable_count;
}

void sim_check_expired(size_t count)
{
    check.expired += count;
}

void sim_check_reported_expired(uint64_t count)
{
    check.reported_expired += count;
    if (check.reported_expired > check.expired)
        sim_fail("%" PRIu64 " orders are reported as expired, %" PRIu64 " have expired",
                 check.reported_expired, check.expired);
}

/* -- refusals: a state of the voucher that a catalogue may remember must explain each -- */

static int64_t database_us(int64_t at_us)
{
    return sim_sql_now_us() - (sim_now_us() - at_us);
}

static bool explains(const struct sim_voucher *row, const struct sim_attempt *attempt,
                     enum outcome outcome)
{
    switch (outcome) {
    case OUTCOME_SOLD_OUT:
        return row->stock_left == 0;
    case OUTCOME_NOT_STARTED:
        return database_us(attempt->arrived_us) < row->begin_us;
    case OUTCOME_SALE_ENDED:
        return sim_sql_has_draw_begun(row) || database_us(sim_now_us()) >= row->end_us;
    default:
        return !row->exists;
    }
}

/* Whether a catalogue may have used this state of the voucher, although a later state had replaced
   the state before the request arrived. An entry of a catalogue stays valid for some time, and the
   batch that reports the later state may take as long as an order. */
static bool is_remembered(size_t state, const struct sim_attempt *attempt)
{
    int64_t from_us = attempt->arrived_us - CATALOGUE_FRESH_US -
                      (int64_t)check.options.order_timeout_ms * 1000;

    for (size_t next = state + 1; next < check.state_count; next++) {
        if (check.states[next].voucher == check.states[state].voucher)
            return check.states[next].at_us >= from_us;
    }
    return true;
}

static void check_refusal(const struct sim_attempt *attempt, enum outcome outcome)
{
    for (size_t i = 0; i < check.durable_count; i++) {
        const struct sim_voucher *row = &check.states[i].row;

        if (row->id == attempt->voucher_id && is_remembered(i, attempt) &&
            explains(row, attempt, outcome))
            return;
    }
    sim_fail("shopper %" PRId64 " was answered %s, which is not so; the time of the "
             "database is %" PRId64,
             attempt->user_id, metrics_outcome_names[outcome], sim_sql_now_us());
}

/* -- answers with an order -- */

static struct sim_order *named_order(const struct sim_attempt *attempt, int64_t order_id)
{
    struct sim_order *order = sim_sql_order(order_id);

    if (order == NULL)
        sim_fail("shopper %" PRId64 " was answered with order %" PRId64
                 ", which is not committed",
                 attempt->user_id, order_id);
    if (order->user_id != attempt->user_id ||
        sim_tables.vouchers[order->voucher].id != attempt->voucher_id)
        sim_fail("shopper %" PRId64 " was answered with order %" PRId64
                 ", which is another's",
                 attempt->user_id, order_id);
    if (!sim_sql_is_durable(order))
        sim_fail("shopper %" PRId64 " was answered with order %" PRId64
                 ", which a crash can lose",
                 attempt->user_id, order_id);
    return order;
}

static bool has_key(const struct sim_order *order, struct text key)
{
    if (key.bytes == NULL)
        /* The request had no key, so the checkout may have generated a key. */
        return order->key_len == 0 || order->key_len > REQUEST_KEY_MAX;
    return order->key_len == key.len && memcmp(order->key, key.bytes, key.len) == 0;
}

static void check_placed(const struct sim_attempt *attempt, int64_t order_id)
{
    struct sim_order *order = named_order(attempt, order_id);

    if (order->is_claimed && !check.options.may_bypass_locks)
        sim_fail("order %" PRId64 " was answered as placed twice", order_id);
    if (order->committed_us < attempt->arrived_us && !check.options.may_bypass_locks)
        sim_fail("order %" PRId64 " is older than the request that placed it", order_id);
    if (!has_key(order, attempt->key))
        sim_fail("order %" PRId64 " has another key than the request", order_id);
    if (order->is_unlocked && !check.options.may_lose_locks)
        sim_fail("order %" PRId64 " committed after its lock was given back", order_id);
    order->is_claimed = true;
}

static void check_repeated(const struct sim_attempt *attempt, int64_t order_id)
{
    struct sim_order *order = named_order(attempt, order_id);

    if (attempt->key.bytes == NULL || !has_key(order, attempt->key))
        sim_fail("order %" PRId64 " was answered as repeated, and has another key",
                 order_id);
}

static bool was_live(const struct sim_order *order, int64_t at_us)
{
    return order->committed_us <= at_us &&
           (order->ended_us == 0 || order->ended_us >= at_us);
}

static int64_t live_orders(const struct sim_order *example, int64_t at_us)
{
    int64_t live = 0;

    for (size_t i = 0; i < sim_tables.order_count; i++) {
        const struct sim_order *order = &sim_tables.orders[i];

        live += order->user_id == example->user_id &&
                order->voucher == example->voucher && was_live(order, at_us);
    }
    return live;
}

static void check_already_ordered(const struct sim_attempt *attempt, int64_t order_id)
{
    struct sim_order *named = named_order(attempt, order_id);
    int64_t limit = sim_tables.vouchers[named->voucher].per_user_limit;
    bool is_true = live_orders(named, attempt->arrived_us) >= limit;

    for (size_t i = 0; i < sim_tables.order_count && !is_true; i++) {
        int64_t at_us = sim_tables.orders[i].committed_us;

        is_true = at_us >= attempt->arrived_us && live_orders(named, at_us) >= limit;
    }
    if (!is_true)
        sim_fail("shopper %" PRId64 " was answered already_ordered below the limit",
                 attempt->user_id);
}

static void check_entered(const struct sim_attempt *attempt)
{
    for (size_t i = 0; i < check.durable_count; i++) {
        const struct sim_voucher *row = &check.states[i].row;

        if (row->id == attempt->voucher_id && row->is_lottery &&
            (row->entered >> attempt->user_id & 1))
            return;
    }
    sim_fail("shopper %" PRId64 " was answered entered, and no entry is durable",
             attempt->user_id);
}

static void check_busy(const struct sim_attempt *attempt)
{
    const struct grant *grant = find_grant(attempt->user_id, 0, attempt->seller);
    int64_t held_us = sim_keys_held_us(attempt->user_id);

    /* A request may wait behind another request of the same shopper in the same service. Then the
       request does not ask Redis itself, and the service may have found the lock busy for either
       request, at any time after the request arrived. If Redis hangs, it answers neither request.
       Then the other request is the order in progress. */
    if (held_us < attempt->arrived_us && !attempt->is_behind &&
        (grant == NULL || grant->busy_us < attempt->arrived_us))
        sim_fail("shopper %" PRId64 " was answered order_in_progress, and the lock was "
                 "free",
                 attempt->user_id);
    if (held_us < sim_now_us() - WAKE_US && !check.options.may_lose_locks)
        sim_fail("shopper %" PRId64 " waited for a lock that was free", attempt->user_id);
}

/* A service that was stopped may need another call of a server. So it has half a timeout from the
   end of the pause. */
void sim_check_deadline(int64_t user_id, int64_t arrived_us, int64_t paused_until_us)
{
    int64_t timeout_us = (int64_t)check.options.order_timeout_ms * 1000;
    int64_t by_us = arrived_us + timeout_us;

    if (by_us < paused_until_us + timeout_us / 2)
        by_us = paused_until_us + timeout_us / 2;
    if (sim_now_us() > by_us + SLACK_US)
        sim_fail("shopper %" PRId64 " was answered %" PRId64 " us after the deadline",
                 user_id, sim_now_us() - by_us);
}

static void check_explained(const struct sim_attempt *attempt, enum outcome outcome,
                            bool is_explained)
{
    if (!is_explained)
        sim_fail("shopper %" PRId64 " was answered %s without a cause", attempt->user_id,
                 metrics_outcome_names[outcome]);
}

void sim_check_answer(struct sim_attempt *attempt, enum outcome outcome, int64_t order_id)
{
    SIM_TRACE("answer: shopper %" PRId64 ", voucher %" PRId64 ", key %.*s: %s %" PRId64,
              attempt->user_id, attempt->voucher_id, (int)attempt->key.len,
              attempt->key.bytes == NULL ? "" : attempt->key.bytes,
              metrics_outcome_names[outcome], order_id);
    if (attempt->is_answered)
        sim_fail("a request of shopper %" PRId64 " was answered twice", attempt->user_id);
    attempt->is_answered = true;
    attempt->outcome = outcome;
    sim_check_deadline(attempt->user_id, attempt->arrived_us, attempt->paused_until_us);
    switch (outcome) {
    case OUTCOME_PLACED:
        check_placed(attempt, order_id);
        break;
    case OUTCOME_REPEATED:
        check_repeated(attempt, order_id);
        break;
    case OUTCOME_ALREADY_ORDERED:
        check_already_ordered(attempt, order_id);
        break;
    case OUTCOME_ENTERED:
        check_entered(attempt);
        break;
    case OUTCOME_SOLD_OUT:
    case OUTCOME_NOT_STARTED:
    case OUTCOME_SALE_ENDED:
    case OUTCOME_NO_VOUCHER:
        check_refusal(attempt, outcome);
        break;
    case OUTCOME_IN_PROGRESS:
        check_busy(attempt);
        break;
    case OUTCOME_UNAVAILABLE:
        check_explained(attempt, outcome, check.options.may_be_unavailable);
        break;
    case OUTCOME_UNKNOWN:
        check_explained(attempt, outcome, check.options.may_be_unknown);
        break;
    case OUTCOME_INTERNAL:
        check_explained(attempt, outcome,
                        check.options.refused_user_id == attempt->user_id);
        break;
    case OUTCOME_OVERLOADED:
        break;
    default:
        check_explained(attempt, outcome, false);
    }
}

/* -- the end -- */

static bool may_have_placed(const struct sim_attempt *attempt,
                            const struct sim_order *order)
{
    return !attempt->is_matched &&
           (attempt->is_lost || attempt->outcome == OUTCOME_UNKNOWN) &&
           attempt->user_id == order->user_id &&
           attempt->voucher_id == sim_tables.vouchers[order->voucher].id &&
           attempt->arrived_us <= order->committed_us && has_key(order, attempt->key);
}

void sim_check_orders(struct sim_attempt *const *attempts, size_t count)
{
    for (size_t i = 0; i < sim_tables.order_count; i++) {
        const struct sim_order *order = &sim_tables.orders[i];
        size_t at = 0;

        while (!order->is_claimed && at < count && !may_have_placed(attempts[at], order))
            at++;
        if (order->is_claimed)
            continue;
        if (at == count)
            sim_fail("order %" PRId64 " of shopper %" PRId64
                     " exists, and its request was answered otherwise",
                     order->id, order->user_id);
        attempts[at]->is_matched = true;
    }
}
