-- Vouchers, their orders, and the history of both.
--
-- The voucher's id is in every primary key and unique index, so the tables can be distributed
-- by it: a transaction of orders stays on the node of its voucher. (The table payment has no
-- voucher and is distributed by its key.) For the same reason, and for speed, there are
--   no foreign keys from orders to vouchers: a foreign key looks up and locks the voucher once
--     per order. place_orders() already holds that row, and vouchers are never deleted.
--     `seckill audit` looks for orders without a voucher.
--   no triggers: a trigger is one call per row. The functions are the only writers and do the
--     work themselves.

-- Domains check single columns. Postgres parses and evaluates all CHECKs of a table in every
-- statement that writes to it, but caches those of a domain per session and evaluates them only
-- where a value is set. For a batch of two orders this saves a quarter of the time.

create domain cents as bigint check (value between 0 and 1000000000000);
create domain positive_id as bigint check (value > 0);
create domain fencing_token as bigint check (value > 0);
create domain stock_count as integer check (value between 0 and 100000000);
create domain order_slot as smallint check (value between 1 and 100);
create domain pay_seconds as integer check (value between 1 and 2592000);
create domain voucher_title as text check (char_length(value) between 1 and 200);
create domain voucher_description as text check (char_length(value) <= 4000);
create domain request_key as text collate "C" check (octet_length(value) between 1 and 80);
create domain payment_ref as text collate "C"
    check (octet_length(value) between 1 and 200);
-- "shopper:7", "admin:1", "payment:3" or "system"
create domain event_actor as text check (octet_length(value) between 1 and 80);

create sequence voucher_id_seq as bigint;

-- Numbers of orders and of history events. They are taken one at a time under the lock of the
-- voucher's row; with a cache, later commits could get smaller numbers. The largest value
-- fits the 43 bits that an id leaves beside the voucher's 20. With several nodes, give each
-- its own residue: increment by <nodes> start with <node>.
create sequence voucher_order_id_seq as bigint maxvalue 8796093022207 cache 1;

/* -- vouchers -- */

-- The row of a voucher on sale changes thousands of times per second. No index holds
-- stock_left or version, and pages are nearly empty (fillfactor 10), so each change is a
-- heap-only update within its page and needs no vacuum.
create table voucher (
    id positive_id primary key default nextval('voucher_id_seq'),
    version bigint not null default 1,
    price_cents cents not null,
    face_value_cents cents not null,
    -- An upper bound of the fences of all shoppers whose slot 1 is free. A fence above it is
    -- new for any such shopper. A function that ends an order (sets its slot to NULL) raises
    -- it to the greatest fence of that shopper's orders.
    ended_fence bigint not null default 0,
    begin_at timestamptz not null,
    end_at timestamptz not null,
    created_at timestamptz not null default now(),
    stock_total stock_count not null,
    stock_left stock_count not null,
    pay_within_s pay_seconds not null,
    per_user_limit order_slot not null,
    title voucher_title not null,
    description voucher_description not null default '',
    -- The service checks the ticket and the proof of work of `pow_bits` zero bits that earns it.
    requires_ticket boolean not null default false,
    pow_bits smallint not null default 0
        constraint voucher_pow_bits check (pow_bits between 0 and 32),
    constraint voucher_stock check (stock_left <= stock_total),
    constraint voucher_window check (end_at > begin_at)
) with (fillfactor = 10);

-- For the list of upcoming vouchers, and for those of open and ended ones. The list of open
-- vouchers skips vouchers that have not begun within the index: there may be very many, and a
-- page of the table holds only a few. The id is in neither index: a planner that has seen the
-- table empty would prefer an index with the id to the primary key.
create index voucher_begin on voucher (begin_at);
create index voucher_end_begin on voucher (end_at, begin_at);

/* -- orders -- */

-- The live states come first. The numbers are those of enum order_status in the program.
create type order_status as enum
    ('unpaid', 'paid', 'redeemed', 'cancelled', 'expired', 'refunded');

-- An order's id is number * 2^20 + voucher id % 2^20, so the id is enough to find the order by
-- the primary key: its voucher is one of
--   generate_series(id & 1048575, (select max(id) from voucher), 1048576).
-- Within a voucher, ids grow in the order of commits, because numbers are taken under the lock
-- of the voucher's row.
create table voucher_order (
    voucher_id bigint not null,
    id positive_id not null,
    user_id positive_id not null,
    fence fencing_token, -- NULL: placed without a lock
    price_cents cents not null,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    paid_at timestamptz,
    status order_status not null default 'unpaid',
    slot order_slot,
    payment_ref payment_ref,
    request_key request_key,
    -- The orders of a batch have one deadline. The first order of the batch holds the id of
    -- the last, and stands for all of them in the index of deadlines; NULL in the others. Set
    -- to NULL when no order of the batch is unpaid any more. An order placed alone or in a small
    -- batch stands for itself. So a payment changes no index.
    due_to_id bigint,
    primary key (voucher_id, id),
    -- live orders hold a slot, others do not
    constraint voucher_order_live check ((slot is not null) = (status < 'cancelled'))
);

-- A shopper has at most per_user_limit live orders: slots are 1..per_user_limit, and the NULLs
-- of ended orders do not collide. Also serves the shopper's list and the look-ups.
create unique index voucher_order_slot on voucher_order (user_id, voucher_id, slot);

-- The fences of a shopper's ended orders, of which there may be very many. An order enters this
-- index when it ends, so placing an order does not change it.
create index voucher_order_ended on voucher_order (user_id, voucher_id, fence)
    where slot is null and fence is not null;

create unique index voucher_order_key on voucher_order (voucher_id, user_id, request_key)
    where request_key is not null;

-- The batches that may have to expire, oldest deadline first. Without the voucher's id, because
-- later orders have later deadlines: an insert goes to the end of the index.
create index voucher_order_due on voucher_order (expires_at) where due_to_id is not null;

-- The order that each payment has paid. A payment pays one order of all vouchers, for ever,
-- also if the order is refunded. A unique index of voucher_order could not ensure that with
-- the voucher's id in it, and without it every payment would change an index of the orders.
create table payment (
    payment_ref payment_ref primary key,
    order_id positive_id not null
);

/* -- history -- */

-- The history of a voucher: what happened to its orders after placement, and to its stock. The
-- function that makes a change writes the event in the same statement. Events are never
-- changed or deleted. The placement of an order is the order's row itself, so the hot path
-- writes no second row; the view voucher_history shows the three tables as one.
--
-- An event's id is made like an order's, from the same sequence, under the lock of the
-- voucher's row until commit. So within a voucher, ids of orders and events grow in the order
-- of commits: a reader who has read up to an id has missed nothing below it.

create table order_event (
    voucher_id bigint not null,
    id positive_id not null,
    order_id positive_id not null,
    at timestamptz not null,
    actor event_actor not null,
    from_status order_status not null,
    to_status order_status not null,
    detail text, -- the payment_ref of a payment
    primary key (voucher_id, id)
);

create index order_event_order on order_event (voucher_id, order_id, id);

-- Changes of stock_total. The first is the creation of the voucher.
create table stock_event (
    voucher_id bigint not null,
    id positive_id not null,
    at timestamptz not null,
    actor event_actor not null,
    stock_change integer not null,
    primary key (voucher_id, id)
);

-- stock_change is the effect of the event on stock_left.
create view voucher_history as
select voucher_id, id::bigint as id, id::bigint as order_id, created_at as at,
       'shopper:' || user_id as actor, null::order_status as from_status,
       'unpaid'::order_status as to_status, -1 as stock_change, null::text as detail
from voucher_order
union all
select voucher_id, id::bigint, order_id::bigint, at, actor::text, from_status, to_status,
       case when from_status < 'cancelled' and to_status >= 'cancelled' then 1 else 0 end,
       detail
from order_event
union all
select voucher_id, id::bigint, null::bigint, at, actor::text, null::order_status,
       null::order_status, stock_change, null::text
from stock_event;
