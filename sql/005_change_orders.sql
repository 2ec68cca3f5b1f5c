-- The life of an order after it was placed:
--   unpaid -> paid -> redeemed, unpaid -> cancelled | expired, paid -> refunded.
--
-- Every function holds the lock of the voucher's row before it looks at an order, as
-- place_orders() does, so all that happens to a voucher happens one after the other; and each
-- change is guarded by the state that it leaves. Plans as in 002: made once, perhaps while
-- the tables are empty.

-- Those that may have to expire, the oldest deadline first. Without the voucher: the deadlines
-- of later orders are later ones, so that an insert finds its place at the end.
create index voucher_order_due on voucher_order (expires_at) where status = 'unpaid';

-- Move orders of a voucher, whose row the caller holds, from one state to another: with their
-- history, and with the stock of those that are over, in one statement. Orders in another
-- state are left alone. Returns how many were moved.
create function move_orders(p_voucher bigint, p_orders bigint[], p_from order_status,
                            p_to order_status, p_at timestamptz, p_actor text,
                            p_detail text default null)
returns bigint
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set enable_hashjoin = off set enable_mergejoin = off
set plan_cache_mode = force_generic_plan set jit = off
as $$
declare
    v_moved bigint;
    v_stock_left integer;
begin
    with moved as (
        update voucher_order o
        set status = p_to,
            slot = case when p_to < 'cancelled' then o.slot end,
            paid_at = case when p_to = 'paid' then p_at else o.paid_at end,
            payment_ref = case when p_to = 'paid' then p_detail else o.payment_ref end
        from unnest(p_orders) c (id)
        where o.voucher_id = p_voucher and o.id = c.id and o.status = p_from
        returning o.id, o.user_id
    ), told as (
        insert into order_event (voucher_id, id, order_id, at, actor, from_status, to_status,
                                 detail)
        select p_voucher, next_event_id(p_voucher), moved.id, p_at, p_actor, p_from, p_to,
               p_detail
        from moved
    ), ended as (
        -- see voucher.ended_fence
        select count(*) as orders, max(mine.fence) as newest_fence
        from moved
        cross join lateral (
            select max(all_mine.fence) as fence
            from (
                select o.fence from voucher_order o
                where o.user_id = moved.user_id and o.voucher_id = p_voucher
                order by o.slot
            ) all_mine
        ) mine
    ), returned as (
        update voucher v
        set stock_left = v.stock_left + ended.orders,
            ended_fence = greatest(v.ended_fence, ended.newest_fence),
            version = v.version + 1
        from ended
        where v.id = p_voucher and p_to >= 'cancelled' and ended.orders > 0
        returning v.stock_left
    )
    select ended.orders, returned.stock_left into v_moved, v_stock_left
    from ended left join returned on true;

    -- There is something to buy again. Otherwise nobody is told: a notification takes a lock
    -- that all commits of the database share.
    if v_stock_left = v_moved then
        perform pg_notify('seckill_voucher', p_voucher::text);
    end if;
    return v_moved;
end
$$;

-- Take the lock of the voucher's row, then look: NULL where there is no such order.
create function hold_order(p_voucher bigint, p_order bigint) returns voucher_order
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off
as $$
declare
    v_order voucher_order;
begin
    perform from voucher v where v.id = p_voucher for no key update;
    select * into v_order from voucher_order o
    where o.voucher_id = p_voucher and o.id between p_order and p_order
    order by o.id limit 1;
    return v_order;
end
$$;

-- What the next four answer: the order as it is afterwards, and
--   1 (done)          the order was moved
--   2 (repeated)      this payment paid it before, nothing was changed
--   3 (wrong state)   the order is not in the state that this leaves
--   4 (wrong amount)  the payment is not of the order's price
--   5 (no order)      there is no such order, `changed` is NULL

create function move_order(p_voucher bigint, p_order bigint, p_from order_status,
                           p_to order_status, p_actor text,
    out verdict smallint, out changed voucher_order)
language plpgsql
as $$
begin
    changed := hold_order(p_voucher, p_order);
    if changed.id is null then
        verdict := 5;
    elsif move_orders(p_voucher, array[p_order], p_from, p_to, clock_timestamp(),
                      p_actor) = 0 then
        verdict := 3;
    else
        verdict := 1;
        changed := hold_order(p_voucher, p_order);
    end if;
end
$$;

create function cancel_order(p_voucher bigint, p_order bigint, p_actor text,
    out verdict smallint, out changed voucher_order)
language sql
begin atomic
    select * from move_order(p_voucher, p_order, 'unpaid', 'cancelled', p_actor);
end;

create function refund_order(p_voucher bigint, p_order bigint, p_actor text,
    out verdict smallint, out changed voucher_order)
language sql
begin atomic
    select * from move_order(p_voucher, p_order, 'paid', 'refunded', p_actor);
end;

create function redeem_order(p_voucher bigint, p_order bigint, p_actor text,
    out verdict smallint, out changed voucher_order)
language sql
begin atomic
    select * from move_order(p_voucher, p_order, 'paid', 'redeemed', p_actor);
end;

-- A payment that comes after the deadline is too late even where nobody has noticed yet: the
-- order expires here.
create function pay_order(p_voucher bigint, p_order bigint, p_actor text, p_payment_ref text,
                          p_amount_cents bigint,
    out verdict smallint, out changed voucher_order)
language plpgsql
as $$
declare
    v_at timestamptz;
begin
    changed := hold_order(p_voucher, p_order);
    v_at := clock_timestamp();
    if changed.id is null then
        verdict := 5;
    elsif changed.payment_ref = p_payment_ref then
        verdict := case when changed.price_cents = p_amount_cents then 2 else 4 end;
    elsif changed.status <> 'unpaid' then
        verdict := 3;
    elsif changed.expires_at <= v_at then
        perform move_orders(p_voucher, array[p_order], 'unpaid', 'expired', v_at, 'system');
        verdict := 3;
    elsif changed.price_cents <> p_amount_cents then
        verdict := 4;
    else
        perform move_orders(p_voucher, array[p_order], 'unpaid', 'paid', v_at, p_actor,
                            p_payment_ref);
        verdict := 1;
    end if;
    changed := hold_order(p_voucher, p_order);
end
$$;

-- Of these orders, expire those that are unpaid and overdue; returns how many. An order that
-- somebody else holds is left for the next time: whoever waits here lets the sale wait.
create function expire_orders(p_voucher bigint, p_orders bigint[]) returns bigint
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set enable_hashjoin = off set enable_mergejoin = off
set plan_cache_mode = force_generic_plan set jit = off
as $$
declare
    v_at timestamptz;
    v_due bigint[];
begin
    perform from voucher v where v.id = p_voucher for no key update;
    v_at := clock_timestamp();
    v_due := array(
        select o.id
        from unnest(p_orders) c (id), voucher_order o
        where o.voucher_id = p_voucher and o.id = c.id and o.status = 'unpaid'
          and o.expires_at <= v_at
        for no key update of o skip locked);
    if cardinality(v_due) = 0 then
        return 0;
    end if;
    return move_orders(p_voucher, v_due, 'unpaid', 'expired', v_at, 'system');
end
$$;
