-- Move orders of a voucher from one state to another. Orders in any other state are skipped. Each
-- order is changed together with its history by one statement. If the new state is an end, the
-- stock of all these orders is returned by one update. Returns the number of orders that were
-- moved. The caller holds the lock of the voucher's row.
--
-- The orders are updated one by one. If one statement updated all of them, its plan, when made
-- while the table is empty, could become a scan of all orders of the voucher.
create or replace function move_orders(p_voucher bigint, p_orders bigint[], p_from order_status,
    p_to order_status, p_at timestamptz, p_actor text, p_detail text default null)
returns bigint
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off
as $$
declare
    v_is_end boolean := p_to >= 'cancelled';
    v_order bigint;
    v_user bigint;
    v_ended_fence bigint;
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
            returning o.user_id, o.fence
        ), event as (
            insert into order_event (voucher_id, id, order_id, at, actor, from_status,
                                     to_status, detail)
            select p_voucher, next_event_id(p_voucher), v_order, p_at, p_actor, p_from, p_to,
                   p_detail
            from moved
        )
        select moved.user_id, moved.fence into v_user, v_ended_fence from moved;
        continue when not found;
        v_moved := v_moved + 1;
        if v_is_end then
            -- Only the live orders of this shopper are looked at: v.ended_fence covers the orders
            -- that have ended before.
            v_fence := greatest(v_fence, v_ended_fence, (
                select max(live_order.fence)
                from (
                    select o.fence from voucher_order o
                    where segment_of(o.voucher_id) = segment_of(p_voucher)
                      and o.user_id = v_user and o.voucher_id = p_voucher and o.slot >= 1
                    order by o.slot
                ) live_order));
        end if;
    end loop;

    if v_is_end and v_moved > 0 then
        update voucher v
        set stock_left = v.stock_left + v_moved,
            ended_fence = greatest(v.ended_fence, v_fence),
            version = v.version + 1
        where v.id = p_voucher
        returning v.stock_left into v_stock_left;
        -- Notify only if the voucher was sold out: for a notification the commit takes a lock that
        -- all notifying commits of the server share.
        if v_stock_left = v_moved then
            perform pg_notify('seckill_voucher', p_voucher::text);
        end if;
    end if;
    return v_moved;
end
$$;
