-- The history of a voucher: what happened to its orders after they were placed, and to its
-- stock. Rows are written by the functions that make the change, in its statement, and by
-- nobody else; nothing changes or deletes them.
--
-- The placement of an order is the order's row itself, which holds all that there is to tell
-- and costs the hot path no second row; voucher_history shows the three as one.
--
-- A row's id is made as an order's is, from the same sequence, by someone who holds the lock
-- of the voucher's row until the commit. So within a voucher ids grow in the order of the
-- commits, placements included: whoever has read up to an id has missed none below it,
-- however long a transaction took.

-- Programs of the version before may be at work: wait for their writes, let them wait.
lock table voucher in exclusive mode;

-- Who did it: "shopper:7", "admin:1", "payment:3", or "system".
create domain event_actor as text check (octet_length(value) between 1 and 80);

create table order_event (
    voucher_id bigint not null,
    id positive_id not null,
    order_id positive_id not null,
    at timestamptz not null,
    actor event_actor not null,
    from_status order_status not null,
    to_status order_status not null,
    detail text, -- of a payment: its payment_ref
    primary key (voucher_id, id)
);

create index order_event_order on order_event (voucher_id, order_id, id);

-- Changes of stock_total; the first is the voucher's creation.
create table stock_event (
    voucher_id bigint not null,
    id positive_id not null,
    at timestamptz not null,
    actor event_actor not null,
    stock_change integer not null,
    primary key (voucher_id, id)
);

-- For whoever holds the lock of the voucher's row.
create function next_event_id(p_voucher bigint) returns bigint
language sql volatile
return nextval('voucher_order_id_seq') * 1048576 + p_voucher % 1048576;

-- stock_change is what the event did to stock_left.
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

-- What was there before has no history but what its rows tell.
insert into stock_event (voucher_id, id, at, actor, stock_change)
select id, next_event_id(id), now(), 'system', stock_total from voucher;

insert into order_event (voucher_id, id, order_id, at, actor, from_status, to_status, detail)
select o.voucher_id, next_event_id(o.voucher_id), o.id, s.at, 'system', s.from_status,
       s.to_status, s.detail
from voucher_order o,
    lateral (values
        (1, coalesce(o.paid_at, now()), 'unpaid'::order_status,
         case when o.status in ('redeemed', 'refunded') then 'paid' else o.status end,
         case when o.status in ('paid', 'redeemed', 'refunded') then o.payment_ref end),
        (2, now(), 'paid', o.status, null)
    ) s (step, at, from_status, to_status, detail)
where o.status <> 'unpaid' and (s.step = 1 or o.status in ('redeemed', 'refunded'))
order by o.voucher_id, o.id, s.step;

-- As in 003, and each tells the history. The actor has a default for programs of the version
-- before.

drop function create_voucher;
create function create_voucher(p_voucher bigint, p_title text, p_description text,
    p_price_cents bigint, p_face_value_cents bigint, p_stock bigint, p_per_user_limit bigint,
    p_begin_at timestamptz, p_end_at timestamptz, p_pay_within_s bigint,
    p_actor text default 'admin')
returns setof voucher
language plpgsql
as $$
begin
    return query
    with made as (
        insert into voucher (id, title, description, price_cents, face_value_cents,
                             stock_total, stock_left, per_user_limit, begin_at, end_at,
                             pay_within_s)
        values (p_voucher, p_title, p_description, p_price_cents, p_face_value_cents, p_stock,
                p_stock, p_per_user_limit, p_begin_at, p_end_at, p_pay_within_s)
        returning *
    ), told as (
        insert into stock_event (voucher_id, id, at, actor, stock_change)
        select v.id, next_event_id(v.id), v.created_at, p_actor, v.stock_total from made v
    )
    select * from made;
    perform pg_notify('seckill_voucher', p_voucher::text);
end
$$;

drop function restock_voucher;
create function restock_voucher(p_voucher bigint, p_add bigint, p_actor text default 'admin')
returns setof voucher
language plpgsql
as $$
begin
    return query
    with changed as (
        update voucher v
        set stock_total = v.stock_total + p_add,
            stock_left = v.stock_left + p_add,
            version = v.version + 1
        where v.id = p_voucher
        returning *
    ), told as (
        insert into stock_event (voucher_id, id, at, actor, stock_change)
        select v.id, next_event_id(v.id), clock_timestamp(), p_actor, p_add from changed v
    )
    select * from changed;
    if found then
        perform pg_notify('seckill_voucher', p_voucher::text);
    end if;
end
$$;
