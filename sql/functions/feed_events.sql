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
    v_event record;
    v_from bigint; -- the first id to return
    v_left bigint := p_limit;
begin
    for v_change in
        (select o.id >> 20 as number, o.voucher_id, o.id from voucher_order o
         where o.follows is null and o.id >> 20 >= p_first and o.id >> 20 <= p_until
         order by o.id >> 20 limit p_limit + 1)
        union all
        (select e.id >> 20, e.voucher_id, e.id from order_event e
         where e.id >> 20 > p_first and e.id >> 20 <= p_until
         order by e.id >> 20 limit p_limit)
        union all
        (select s.id >> 20, s.voucher_id, s.id from stock_event s
         where s.id >> 20 > p_first and s.id >> 20 <= p_until
         order by s.id >> 20 limit p_limit)
        order by number
    loop
        v_from := v_change.id;
        if v_change.number = p_first then
            v_from := (p_number + 1) << 20; -- the rest of a batch
        end if;
        for v_event in
            select h.* from voucher_history h
            where h.voucher_id = v_change.voucher_id and h.id >= v_from
            order by h.id
        loop
            exit when v_event.follows is null and v_event.id > v_change.id;
            id := v_event.id;
            voucher_id := v_event.voucher_id;
            order_id := v_event.order_id;
            at := v_event.at;
            stock_change := v_event.stock_change;
            actor := v_event.actor;
            from_status := v_event.from_status;
            to_status := v_event.to_status;
            detail := v_event.detail;
            first := v_change.number;
            return next;
            v_left := v_left - 1;
            if v_left = 0 then
                return;
            end if;
        end loop;
    end loop;
end
$$;

revoke execute on function feed_events from public;
