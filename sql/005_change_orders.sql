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

-- Move orders of a voucher, whose row the caller holds, from one state to another; each with
-- its history in one statement, and then all with what they give back to the stock. Orders in
-- another state are left alone. Returns how many were moved.
--
-- One by one: a statement about all of them could be planned to look through all orders of the
-- voucher, for which there is no reason to be dear while there are none.
create function move_orders(p_voucher bigint, p_orders bigint[], p_from order_status,
                            p_to order_status, p_at timestamptz, p_actor text,
                            p_detail text default null)
returns bigint
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off
as $$
declare
    v_is_end boolean := p_to >= 'cancelled';
    v_order bigint;
    v_user bigint;
    v_moved bigint := 0;
    v_fence bigint := 0;
    v_stock_left integer;
begin
    foreach v_order in array p_orders loop
        with moved as (
            update voucher_order o
            set status = p_to,
                slot = case when not v_is_end then o.slot end,
                paid_at = case when p_to = 'paid' then p_at else o.paid_at end,
                payment_ref = case when p_to = 'paid' then p_detail else o.payment_ref end
            where o.voucher_id = p_voucher and o.id = v_order and o.status = p_from
            returning o.user_id
        ), told as (
            insert into order_event (voucher_id, id, order_id, at, actor, from_status,
                                     to_status, detail)
            select p_voucher, next_event_id(p_voucher), v_order, p_at, p_actor, p_from, p_to,
                   p_detail
            from moved
        )
        select moved.user_id into v_user from moved;
        continue when not found;
        v_moved := v_moved + 1;
        if v_is_end then
            v_fence := greatest(v_fence, (
                select max(mine.fence)
                from (
                    select o.fence from voucher_order o
                    where o.user_id = v_user and o.voucher_id = p_voucher
                    order by o.slot
                ) mine));
        end if;
    end loop;

    if v_is_end and v_moved > 0 then
        update voucher v
        set stock_left = v.stock_left + v_moved,
            ended_fence = greatest(v.ended_fence, v_fence),
            version = v.version + 1
        where v.id = p_voucher
        returning v.stock_left into v_stock_left;
        -- There is something to buy again. Otherwise nobody is told: a notification takes a
        -- lock that all commits of the database share.
        if v_stock_left = v_moved then
            perform pg_notify('seckill_voucher', p_voucher::text);
        end if;
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
set plan_cache_mode = force_generic_plan set jit = off
as $$
declare
    v_at timestamptz;
    v_due bigint[];
begin
    perform from voucher v where v.id = p_voucher for no key update;
    v_at := clock_timestamp();
    -- "< 'paid'": the index of all that are due serves "= 'unpaid'" alone, and is not for this
    v_due := array(
        select due.id
        from unnest(p_orders) c (id)
        cross join lateral (
            select o.id from voucher_order o
            where o.voucher_id = p_voucher and o.id between c.id and c.id
              and o.status < 'paid' and o.expires_at <= v_at
            order by o.id limit 1
            for no key update skip locked
        ) due);
    if cardinality(v_due) = 0 then
        return 0;
    end if;
    return move_orders(p_voucher, v_due, 'unpaid', 'expired', v_at, 'system');
end
$$;
