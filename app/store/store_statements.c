/* store_statements.c - the SQL that the store sends; functions are in sql/. */
#include "app/store/store_statements.h"

/* store_orders.c and store_vouchers.c read the columns by number. */
#define ORDER_COLUMNS "o.id, o.voucher_id, o.user_id, order_detail(o)"
#define NUMBER_COLUMNS                                                                   \
    "price_cents, face_value_cents, stock_total, stock_left, per_user_limit,"            \
    " pay_within_s, begin_at, end_at,"                                                   \
    " requires_ticket::int::bigint as requires_ticket, pow_bits"
#define VOUCHER_COLUMNS "id, version, title, description, " NUMBER_COLUMNS
/* One row per change, in their order, numbered by `pos`. */
#define CHANGED_ORDERS(arrays, names, call)                                              \
    "select r.pos, c.verdict, (c.changed).id, (c.changed).voucher_id,"                   \
    " (c.changed).user_id, order_detail(c.changed)"                                      \
    " from unnest($2::bigint[], $3::text[]" arrays                                       \
    ") with ordinality r (id, actor" names ", pos) cross join lateral " call " c"
#define EVENTS(from)                                                                     \
    "select id, voucher_id, order_id, at, stock_change, actor, from_status::text,"       \
    " to_status::text, detail from " from " where voucher_id = $1::bigint"               \
    " and id > $2::bigint order by id limit $3::bigint"
/* The placement by the id of the order, and its changes by the index of orders. */
#define EVENTS_OF_ORDER                                                                  \
    "((select * from voucher_history where voucher_id = $1::bigint"                      \
    "   and id between $4::bigint and $4 order by id limit 1) union all"                 \
    " (select * from voucher_history where voucher_id = $1 and order_id = $4"            \
    "   and from_status is not null order by id)) of_order"
/* Returns the clock even without a voucher, whose columns are then NULL. */
#define ROWS(columns, from)                                                              \
    "select v.*, clock_timestamp() from (values (1)) as always"                          \
    " left join lateral (select " columns " from " from ") v on true"
#define VOUCHERS(from) ROWS(VOUCHER_COLUMNS, from)

/* What is read may be committed and not durable yet. So a read for an answer ends with a
   barrier: unless all WAL is on disk and no standby is named, this transaction gets a
   record of its own, and its commit waits for all records before it. A statement that
   changes rows waits anyway. */
#define BARRIER    true
#define NO_BARRIER false
#define PLACE(from, batch)                                                               \
    "select verdicts, order_ids, details, price, decided_at, expiry,"                    \
    " new_stock, new_version, opens, closes, " batch " from " from
#define ONE   "place_orders($1, $2, $3, $4)"
#define MANY  "place_many($1, $2, $3, $4, $5, $6) order by batch"
#define EARLY "set_config('synchronous_commit', 'off', true), "

/* clang-format off */
const struct store_statement store_statements[STATEMENT_COUNT + 1] = {
    [STATEMENT_PLACE] = {"place", PLACE(ONE, "1::bigint"), NO_BARRIER},
    [STATEMENT_PLACE_EARLY] = {"place_early", PLACE(EARLY ONE, "1::bigint"), NO_BARRIER},
    [STATEMENT_PLACE_MANY] = {"place_many", PLACE(MANY, "batch"), NO_BARRIER},
    [STATEMENT_PLACE_MANY_EARLY] = {"place_many_early", PLACE(EARLY MANY, "batch"), NO_BARRIER},
    [STATEMENT_BARRIER] = {"barrier",
        "select pg_logical_emit_message(true, 'seckill', '')"
        " where pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn()"
        "  or current_setting('synchronous_standby_names') <> ''", NO_BARRIER},
    [STATEMENT_AGE] = {"age",
        "select coalesce(greatest(0, ceil(extract(epoch from clock_timestamp()"
        " - min(alive_at))))::bigint, 0) from cell where number >= 0", NO_BARRIER},
    [STATEMENT_FIND] = {"find",
        "select pos, verdict, order_id, detail from find_orders($1, $2, $3)", BARRIER},
    [STATEMENT_RESOLVE] = {"resolve",
        "select pos, verdict, order_id, detail from resolve_orders($1, $2, $3, $4)", BARRIER},
    [STATEMENT_RETIRE] = {"retire",
        "select count(case when a.wait_event = 'SyncRep' then true"
        "  else pg_terminate_backend(a.pid) end)"
        " from unnest($1::bigint[], $2::timestamptz[]) s (pid, start)"
        " join pg_stat_activity a"
        "  on a.pid = s.pid and a.backend_start = s.start", NO_BARRIER},
    [STATEMENT_READ_ORDER] = {"read_order",
        "select o.* from generate_series($1::bigint & 1048575,"
        "  (select max(id) from voucher), 1048576) v (id),"
        " lateral (select " ORDER_COLUMNS " from voucher_order o"
        "  where o.voucher_id = v.id and o.id between $1 and $1"
        "   and $2::bigint in (0, o.user_id)"
        "  order by o.id limit 1) o", BARRIER},
    [STATEMENT_LIST_ORDERS] = {"list_orders",
        "select o.* from generate_series(segment_of($2::bigint), case $2"
        "  when 0 then (select segment_of(max(id)) from voucher) else segment_of($2) end) s (n),"
        " lateral (select " ORDER_COLUMNS " from voucher_order o"
        "  where segment_of(o.voucher_id) = s.n and o.user_id = $1::bigint"
        "   and $2 in (0, o.voucher_id) and o.id < $3::bigint"
        "  order by o.voucher_id) o"
        " order by o.id desc limit $4::bigint", BARRIER},
    [STATEMENT_PAY_ORDER] = {"pay_order",
        CHANGED_ORDERS(", $4::text[], $5::bigint[]", ", payment_ref, amount_cents",
                       "pay_order($1, r.id, r.actor, r.payment_ref, r.amount_cents)"), BARRIER},
    [STATEMENT_CANCEL_ORDER] = {"cancel_order",
        CHANGED_ORDERS("", "", "cancel_order($1, r.id, r.actor)"), BARRIER},
    [STATEMENT_REFUND_ORDER] = {"refund_order",
        CHANGED_ORDERS("", "", "refund_order($1, r.id, r.actor)"), BARRIER},
    [STATEMENT_REDEEM_ORDER] = {"redeem_order",
        CHANGED_ORDERS("", "", "redeem_order($1, r.id, r.actor)"), BARRIER},
    [STATEMENT_DUE_BATCHES] = {"due_batches",
        "select voucher_id, array_agg(id) from (select voucher_id,"
        "  id from voucher_order where due_to_id is not null"
        "  and expires_at <= now() and voucher_id <> all ($2::bigint[])"
        "  order by expires_at limit $1::bigint + beat()) due group by voucher_id", NO_BARRIER},
    [STATEMENT_EXPIRE_BATCHES] = {"expire_batches",
        "select expired, ended from expire_batches($1, $2)", NO_BARRIER},
    [STATEMENT_LEAD_EXPIRY] = {"lead_expiry",
        "select pg_try_advisory_lock(5265717970)::int::bigint", NO_BARRIER},
    [STATEMENT_VOUCHER_EVENTS] = {"voucher_events", EVENTS("voucher_history"), BARRIER},
    [STATEMENT_ORDER_EVENTS] = {"order_events", EVENTS(EVENTS_OF_ORDER), BARRIER},
    [STATEMENT_READ_VOUCHER] = {"read_voucher", VOUCHERS("voucher where id = $1::bigint"), BARRIER},
    [STATEMENT_READ_VOUCHERS] = {"read_vouchers",
        ROWS("id, version, ''::text, ''::text, " NUMBER_COLUMNS,
             "voucher where id = any ($1::bigint[])"), BARRIER},
    [STATEMENT_LIST_ANY] = {"list_any",
        VOUCHERS("voucher where id < $1::bigint order by id desc limit $2::bigint"), BARRIER},
    [STATEMENT_LIST_UPCOMING] = {"list_upcoming",
        VOUCHERS("voucher where begin_at > now() and (begin_at, id) > ($1, $2)"
                 " order by begin_at, id limit $3::bigint"), BARRIER},
    [STATEMENT_LIST_OPEN] = {"list_open",
        VOUCHERS("voucher where begin_at <= now() and end_at > now()"
                 " and (end_at, id) > ($1, $2) order by end_at, id limit $3::bigint"), BARRIER},
    [STATEMENT_LIST_ENDED] = {"list_ended",
        VOUCHERS("voucher where end_at <= now() and (end_at, id) < ($1, $2)"
                 " order by end_at desc, id desc limit $3::bigint"), BARRIER},
    [STATEMENT_CREATE_VOUCHER] = {"create_voucher",
        VOUCHERS("create_voucher(next_voucher_id(), $1, $2, $3, $4, $5, $6, $7, $8,"
                 " $9, $10, $11::bigint = 1, $12)"), BARRIER},
    [STATEMENT_PATCH_VOUCHER] = {"patch_voucher",
        VOUCHERS("patch_voucher($1, $2, $3, $4, $5, $6, $7::bigint = 1, $8)"), BARRIER},
    [STATEMENT_RESTOCK_VOUCHER] = {"restock_voucher",
        VOUCHERS("restock_voucher($1, $2, $3)"), BARRIER},
};
/* clang-format on */
