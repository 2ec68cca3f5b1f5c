-- Find out which of these requests placed an order, after the connection was lost. An order is
-- found by the fence of the request's lock, or by the key if the fence is 0. Returns for each
-- request 1 (placed) with the order, or 0 (no order).
create or replace function resolve_orders(p_voucher bigint, p_users bigint[], p_fences bigint[],
    p_keys text[])
returns table (pos bigint, verdict smallint, order_id bigint, detail bigint[])
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off
as $$
begin
    return query
    select c.pos, (case when r.id is null then 0 else 1 end)::smallint, r.id::bigint, r.detail
    from unnest(p_users, p_fences, p_keys) with ordinality as c (user_id, fence, request_key, pos)
    left join lateral (
        (select o.id, order_detail(o) as detail from voucher_order o
         where segment_of(o.voucher_id) = segment_of(p_voucher)
           and o.user_id = c.user_id and o.voucher_id = p_voucher and o.slot >= 1
           and o.fence = c.fence
         order by o.slot limit 1)
        union all
        (select o.id, order_detail(o) from voucher_order o
         where o.user_id = c.user_id and o.voucher_id = p_voucher and o.slot is null
           and o.fence between c.fence and c.fence
         order by o.fence limit 1)
        union all
        (select o.id, order_detail(o) from voucher_order o
         where o.voucher_id = p_voucher and o.user_id = c.user_id and c.fence = 0
           and o.request_key between c.request_key and c.request_key
         order by o.request_key limit 1)
    ) r on true;
end
$$;
