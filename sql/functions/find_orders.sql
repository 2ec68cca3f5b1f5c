-- Find out what earlier requests of these shoppers did. Returns a row for each shopper and request
-- key (NULL: no key), in the order of the parameters, with the verdict
--   2 repeated         a request with the key placed the order `order_id`; `detail` is the
--                      order_detail() of this order
--   3 already ordered  the shopper's live orders have reached the limit; `order_id` is a live order
--   0 none             neither
create or replace function find_orders(p_voucher bigint, p_users bigint[], p_keys text[])
returns table (pos bigint, verdict smallint, order_id bigint, detail bigint[])
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off
as $$
declare
    v_limit bigint := (select v.per_user_limit from voucher v where v.id = p_voucher);
begin
    return query
    select c.pos,
           (case when r.id is not null then 2 when l.live >= v_limit then 3 else 0 end)::smallint,
           coalesce(r.id, case when l.live >= v_limit then l.newest_id end)::bigint,
           r.detail
    from unnest(p_users, p_keys) with ordinality as c (user_id, request_key, pos)
    left join lateral (
        select o.id, order_detail(o) as detail from voucher_order o
        where o.voucher_id = p_voucher and o.user_id = c.user_id
          and o.request_key between c.request_key and c.request_key
        order by o.request_key limit 1
    ) r on true
    left join lateral (
        select count(*) as live, max(live_order.id) as newest_id
        from (
            select o.id from voucher_order o
            where segment_of(o.voucher_id) = segment_of(p_voucher)
              and o.user_id = c.user_id and o.voucher_id = p_voucher and o.slot >= 1
            order by o.slot
        ) live_order
    ) l on true;
end
$$;
