/*
 * db_audit.c - do the promises hold on the data as they are?
 *
 * Each check is a query for rows that should not exist, in words; all see one snapshot.
 * They do not trust the constraints that ought to prevent such rows: an index can be
 * corrupt, a constraint dropped, a row planted.
 */
#include "app/store/db.h"
#include "app/store/db_impl.h"

#include <stddef.h>

static const struct check {
    const char *name;
    const char *sql;
} checks[] = {
    {"no oversell: stock_total = stock_left + live orders, stock_left >= 0",
     "select format('voucher %s: stock_total %s, stock_left %s, live orders %s',"
     " v.id, v.stock_total, v.stock_left, coalesce(o.live, 0))"
     " from voucher v left join (select voucher_id, count(*) as live from voucher_order"
     "  where status in ('unpaid', 'paid', 'redeemed') group by voucher_id) o"
     "  on o.voucher_id = v.id"
     " where v.stock_left < 0"
     "  or v.stock_total is distinct from v.stock_left + coalesce(o.live, 0)"},

    {"no duplicate: live orders of a shopper within per_user_limit",
     "select format('voucher %s: shopper %s has %s live orders (%s), the limit is %s',"
     " o.voucher_id, o.user_id, o.live, array_to_string(o.ids, ' '), v.per_user_limit)"
     " from (select voucher_id, user_id, count(*) as live, (array_agg(id))[1:5] as ids"
     "  from voucher_order where status in ('unpaid', 'paid', 'redeemed')"
     "  group by voucher_id, user_id) o join voucher v on v.id = o.voucher_id"
     " where o.live > v.per_user_limit"},

    {"every live order holds a slot within the limit, others none",
     "select format('voucher %s: order %s of shopper %s is %s and has slot %s, the limit"
     " is %s', o.voucher_id, o.id, o.user_id, o.status, coalesce(o.slot::text, 'none'),"
     " v.per_user_limit)"
     " from voucher_order o join voucher v on v.id = o.voucher_id"
     " where case when o.status in ('unpaid', 'paid', 'redeemed')"
     "  then (o.slot between 1 and v.per_user_limit) is not true"
     "  else o.slot is not null end"},

    {"no slot is held twice",
     "select format('voucher %s: shopper %s holds slot %s with %s orders (%s)',"
     " voucher_id, user_id, slot, count(*), array_to_string((array_agg(id))[1:5], ' '))"
     " from voucher_order where slot is not null group by voucher_id, user_id, slot"
     " having count(*) > 1"},

    {"no request key made two orders",
     "select format('voucher %s: key \"%s\" of shopper %s made %s orders (%s)',"
     " voucher_id, request_key, user_id, count(*),"
     " array_to_string((array_agg(id))[1:5], ' '))"
     " from voucher_order where request_key is not null"
     " group by voucher_id, user_id, request_key having count(*) > 1"},

    {"an order's id is its own and leads to its voucher",
     "select format('order %s: stands %s times, for vouchers %s', id, count(*),"
     " array_to_string((array_agg(voucher_id))[1:5], ' '))"
     " from voucher_order group by id"
     " having count(*) > 1 or min(id) <= 0 or bool_or((id - voucher_id) % 1048576 <> 0)"},

    {"every order has its voucher",
     "select format('order %s of shopper %s: there is no voucher %s', o.id, o.user_id,"
     " o.voucher_id)"
     " from voucher_order o"
     " where not exists (select from voucher v where v.id = o.voucher_id)"},

    {"times in their order",
     "select format('voucher %s: order %s created %s, expires %s, paid %s; voucher "
     "created"
     " %s', o.voucher_id, o.id, o.created_at, o.expires_at, coalesce(o.paid_at::text,"
     " 'never'), v.created_at)"
     " from voucher_order o join voucher v on v.id = o.voucher_id"
     " where o.created_at < v.created_at or o.expires_at <= o.created_at"
     "  or o.paid_at < o.created_at"
     "  or (o.paid_at is null) <> (o.status in ('unpaid', 'cancelled', 'expired'))"},

    {"orders within their bounds",
     "select format('voucher %s: order %s: user_id %s, price_cents %s, fence %s,"
     " request_key \"%s\"', voucher_id, id, user_id, price_cents,"
     " coalesce(fence::text, 'none'), request_key)"
     " from voucher_order where user_id <= 0 or fence <= 0"
     "  or price_cents not between 0 and 1000000000000"
     "  or octet_length(request_key) not between 1 and 80"},

    {"whoever may take slot 1 again had no order with a fence above ended_fence",
     "select format('voucher %s: ended_fence is %s, shopper %s has fence %s',"
     " o.voucher_id, v.ended_fence, o.user_id, o.newest)"
     " from (select voucher_id, user_id, max(fence) as newest from voucher_order"
     "  group by voucher_id, user_id"
     "  having bool_and(slot is distinct from 1::smallint)) o"
     " join voucher v on v.id = o.voucher_id where o.newest > v.ended_fence"
     " union all"
     " select format('voucher %s: ended_fence is %s, ended order %s has fence %s',"
     " o.voucher_id, v.ended_fence, o.id, o.fence)"
     " from voucher_order o join voucher v on v.id = o.voucher_id"
     " where o.slot is null and o.fence > v.ended_fence"},

    {"each step of an order's history begins where the one before ended",
     "select format('voucher %s: event %s of order %s: %s -> %s, before it was %s',"
     " voucher_id, id, order_id, from_status, to_status, before)"
     " from (select *, coalesce(lag(to_status) over (partition by voucher_id, order_id"
     "   order by id), 'unpaid') as before from order_event) e"
     " where from_status <> before or (from_status, to_status) not in"
     "  (('unpaid', 'paid'), ('unpaid', 'cancelled'), ('unpaid', 'expired'),"
     "   ('paid', 'refunded'), ('paid', 'redeemed'))"},

    {"an order's history leads to its state",
     "select format('voucher %s: order %s is %s, its history ends %s', o.voucher_id,"
     " o.id, o.status, coalesce(e.last, 'unpaid'))"
     " from voucher_order o left join (select distinct on (voucher_id, order_id)"
     "  voucher_id, order_id, to_status as last from order_event"
     "  order by voucher_id, order_id, id desc) e"
     "  on e.voucher_id = o.voucher_id and e.order_id = o.id"
     " where o.status <> coalesce(e.last, 'unpaid')"},

    {"a payment stands in the history as in the order",
     "select format('voucher %s: order %s was paid %s with \"%s\", its history says %s"
     " with \"%s\"', o.voucher_id, o.id, coalesce(o.paid_at::text, 'never'),"
     " o.payment_ref, coalesce(e.at::text, 'never'), e.detail)"
     " from (select * from voucher_order where paid_at is not null) o"
     " full join (select * from order_event where to_status = 'paid') e"
     "  on e.voucher_id = o.voucher_id and e.order_id = o.id"
     " where e.at is distinct from o.paid_at or e.detail is distinct from o.payment_ref"},

    {"what the history tells of came after the order that it is about",
     "select format('voucher %s: event %s of order %s at %s: the order was placed %s',"
     " e.voucher_id, e.id, e.order_id, e.at, coalesce(o.created_at::text, 'never'))"
     " from order_event e left join voucher_order o"
     "  on o.voucher_id = e.voucher_id and o.id = e.order_id"
     " where o.id is null or e.id <= o.id or e.at < o.created_at"},

    {"the history of the stock adds up to stock_total and stock_left",
     "select format('voucher %s: stock_total %s, stock_left %s; its history gives %s and"
     " %s', coalesce(v.id, h.voucher_id), v.stock_total, v.stock_left, h.total, h.stock)"
     " from voucher v full join (select voucher_id, sum(stock_change) as stock,"
     "  sum(stock_change) filter (where order_id is null) as total"
     "  from voucher_history group by voucher_id) h on h.voucher_id = v.id"
     " where v.stock_total is distinct from h.total"
     "  or v.stock_left is distinct from h.stock"},

    {"an id stands once in a history, and leads to its voucher",
     "select format('voucher %s: id %s stands %s times in the history', voucher_id, id,"
     " count(*))"
     " from voucher_history group by voucher_id, id"
     " having count(*) > 1 or id <= 0 or (id - voucher_id) % 1048576 <> 0"},

    {"vouchers within their bounds",
     "select format('voucher %s: price_cents %s, face_value_cents %s, stock_total %s,"
     " per_user_limit %s, pay_within_s %s, begin_at %s, end_at %s', id, price_cents,"
     " face_value_cents, stock_total, per_user_limit, pay_within_s, begin_at, end_at)"
     " from voucher where price_cents not between 0 and 1000000000000"
     "  or face_value_cents not between 0 and 1000000000000"
     "  or stock_total not between 0 and 100000000"
     "  or per_user_limit not between 1 and 100"
     "  or pay_within_s not between 1 and 2592000 or end_at <= begin_at"
     "  or char_length(title) not between 1 and 200 or char_length(description) > 4000"},

    {"an unpaid order is in a batch whose deadline is looked for",
     "select format('voucher %s: order %s expires %s, and nothing leads to it',"
     " voucher_id, id, expires_at)"
     " from (select *, max(due_to_id) over (partition by voucher_id order by id) as last"
     "  from voucher_order) o"
     " where status = 'unpaid' and (last >= id) is not true"},
};
#define CHECK_COUNT ((unsigned)(sizeof(checks) / sizeof(checks[0])))

/* Rows are told as they come: there may be millions. */
static enum status read_rows(struct db *db, const struct check *check,
                             const struct db_audit *audit, uint64_t *broken,
                             struct err *reterr)
{
    enum status status = STATUS_OK;

    for (PGresult *result; (result = PQgetResult(db->conn)) != NULL; PQclear(result)) {
        if (status == STATUS_OK)
            status = db_check(db, result, check->name, reterr);
        if (PQresultStatus(result) != PGRES_SINGLE_TUPLE)
            continue;
        (*broken)++;
        audit->on_row(check->name, PQgetvalue(result, 0, 0), audit->arg);
    }
    return status;
}

static enum status run_check(struct db *db, const struct check *check,
                             const struct db_audit *audit, uint64_t *broken,
                             struct err *reterr)
{
    if (PQsendQuery(db->conn, check->sql) != 1 || PQsetSingleRowMode(db->conn) != 1)
        return err_set(reterr, STATUS_IO, "%s: %s", check->name,
                       PQerrorMessage(db->conn));
    return read_rows(db, check, audit, broken, reterr);
}

enum status db_audit(struct db *db, const struct db_audit *audit, uint64_t *ret_broken,
                     struct err *reterr)
{
    uint64_t broken = 0;
    enum status status = db_run(db, "begin isolation level repeatable read, read only",
                                "snapshot", reterr);

    for (unsigned i = 0; status == STATUS_OK && i < CHECK_COUNT; i++) {
        if (audit->on_step != NULL)
            audit->on_step(checks[i].name, i, CHECK_COUNT, audit->arg);
        status = run_check(db, &checks[i], audit, &broken, reterr);
    }
    PQclear(PQexec(db->conn, "rollback"));
    if (status == STATUS_OK)
        *ret_broken = broken;
    return status;
}
