-- Return the changes of all vouchers that come after a position of the feed, at most p_limit of
-- them. Changes with numbers above p_until, which advance_feed() has returned, are left out.
--
-- The feed is ordered by the numbers of the changes, except that the orders of a large batch stay
-- together, at the number of the first order. Only this order is in the index of the feed, and the
-- others follow it (column `follows`). So a position consists of two numbers: `first`, by which the
-- feed is ordered, and the number of the change itself. Both are stored in the rows and never
-- change, so all readers always see the same order.
create or replace function feed_events(p_first bigint, p_number bigint, p_until bigint, p_limit bigint)
returns table (id bigint, voucher_id bigint, order_id bigint, at timestamptz, stock_change integer,
               actor text, from_status text, to_status text, detail text, first bigint)
language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off set search_path from current
as $$
#variable_conflict use_column
declare
    v_change record;
    v_next record;
    v_from bigint; -- the first id that may follow the change
    v_left bigint := p_limit;
begin
    for v_change in
        select h.*, h.id >> 20 as number
        from voucher_history h
        where h.follows is null and h.id >> 20 >= p_first and h.id >> 20 <= p_until
        order by h.id >> 20
        limit p_limit + 1 -- the change with the number p_first is not returned
    loop
        exit when v_left = 0;
        id := v_change.id;
        voucher_id := v_change.voucher_id;
        order_id := v_change.order_id;
        at := v_change.at;
        stock_change := v_change.stock_change;
        actor := v_change.actor;
        from_status := v_change.from_status;
        to_status := v_change.to_status;
        detail := v_change.detail;
        first := v_change.number;
        v_from := id + 1;
        if first = p_first then
            v_from := (p_number + 1) << 20; -- the rest of a batch
        else
            return next;
            v_left := v_left - 1;
        end if;
        continue when order_id is distinct from id; -- only orders are placed in batches
        for v_next in
            select o.id, o.created_at, o.user_id, o.follows
            from voucher_order o
            where o.voucher_id = v_change.voucher_id and o.id >= v_from
            order by o.id
        loop
            exit when v_left = 0 or v_next.follows is null;
            id := v_next.id;
            order_id := v_next.id;
            at := v_next.created_at;
            actor := 'shopper:' || v_next.user_id;
            return next;
            v_left := v_left - 1;
        end loop;
    end loop;
end
$$;

revoke execute on function feed_events from public;
