-- Vouchers and the orders of vouchers.
--
-- Everything is kept by voucher: the voucher's id is in every key, so that both tables can
-- be distributed by it and an order's transaction stays on the node that holds the voucher.
-- For the same reason, and for speed, there are
--   no foreign key from orders to vouchers: it would look the voucher up and lock it once
--     per order, where place_orders() holds the row's lock already and vouchers are never
--     deleted; `seckill audit` looks for orphans;
--   no triggers: one call per row on the hot path, and nothing they could know that the
--     functions which are the only writers do not.

--
-- What a column may hold on its own is said by domains. The CHECKs of a table are parsed and
-- tried, all of them, by every statement that writes to it; those of a domain are kept by the
-- session, and tried where a value is set. For a batch of two orders that is a quarter of
-- the time.

create domain cents as bigint check (value between 0 and 1000000000000);
create domain positive_id as bigint check (value > 0);
create domain fencing_token as bigint check (value > 0);
create domain stock_count as integer check (value between 0 and 100000000);
create domain order_slot as smallint check (value between 1 and 100);
create domain pay_seconds as integer check (value between 1 and 2592000);
create domain voucher_title as text check (char_length(value) between 1 and 200);
create domain voucher_description as text check (char_length(value) <= 4000);
create domain request_key as text collate "C" check (octet_length(value) between 1 and 80);
create domain payment_ref as text check (octet_length(value) between 1 and 200);

create sequence voucher_id_seq as bigint;

-- Taken by place_orders() under the lock of the voucher's row, one value at a time: a cache
-- would hand later commits smaller numbers. The largest value still fits the 43 bits that
-- an order's id leaves beside the voucher's 20. On several nodes give each a residue of its
-- own: increment by <nodes> start with <node>.
create sequence voucher_order_id_seq as bigint maxvalue 8796093022207 cache 1;

-- The row of a voucher on sale changes thousands of times a second. No index holds
-- stock_left or version and pages are left nearly empty, so each change is a heap-only
-- update within its page and needs no vacuum to be cleaned up.
create table voucher (
    id positive_id primary key default nextval('voucher_id_seq'),
    version bigint not null default 1,
    price_cents cents not null,
    face_value_cents cents not null,
    -- The greatest fence among all orders, at that moment, of any shopper who had an order
    -- end: a greater fence is news to a shopper whose slot 1 is free. Whatever ends an order
    -- (sets its slot to NULL) must raise it to the greatest fence of that shopper's orders.
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
    constraint voucher_stock check (stock_left <= stock_total),
    constraint voucher_window check (end_at > begin_at)
) with (fillfactor = 10);

-- The lists: upcoming by begin; open and ended by end. Without the id: an index that holds
-- it, even behind another column, is as good as the primary key to a planner that has seen
-- the table empty.
create index voucher_begin on voucher (begin_at);
create index voucher_end on voucher (end_at);

-- In this order: live ones first, numbered as in the program.
create type order_status as enum
    ('unpaid', 'paid', 'redeemed', 'cancelled', 'expired', 'refunded');

-- An order's id is (number * 2^20 + the voucher's id % 2^20): whoever has it finds the order
-- by the primary key, as its voucher is one of
--   generate_series(id & 1048575, (select max(id) from voucher), 1048576).
-- Within a voucher ids grow in the order of commits, as numbers are taken under the lock of
-- the voucher's row.
create table voucher_order (
    voucher_id bigint not null,
    id positive_id not null,
    user_id positive_id not null,
    fence fencing_token, -- NULL: taken without a lock
    price_cents cents not null,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    paid_at timestamptz,
    status order_status not null default 'unpaid',
    slot order_slot,
    payment_ref payment_ref,
    request_key request_key,
    primary key (voucher_id, id),
    -- live orders hold a slot, others none
    constraint voucher_order_live check ((slot is not null) = (status < 'cancelled'))
);

-- At most per_user_limit live orders of a shopper: slots are 1..per_user_limit, and the NULLs
-- of orders that are over do not collide. It also serves the shopper's list and look-ups.
create unique index voucher_order_slot on voucher_order (user_id, voucher_id, slot);

create unique index voucher_order_key on voucher_order (voucher_id, user_id, request_key)
    where request_key is not null;
