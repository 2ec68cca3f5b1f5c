-- Place one order of a shopper who already has orders of the voucher, in the lowest free slot.
-- Called only by place_orders(), which holds the lock of the row of the voucher `v`.
create or replace function place_in_free_slot(v voucher, p_at timestamptz, p_user bigint,
    p_fence bigint, p_key text,
    out verdict smallint, out order_id bigint, out detail bigint[])
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off
as $$
declare
    v_slots smallint[];
    v_newest_fence bigint; -- p_fence is stale if it is not greater
begin
    -- Look again, because earlier requests of the same batch may have placed orders.
    select f.verdict, f.order_id, f.detail into verdict, order_id, detail
    from find_orders(v.id, array[p_user], array[p_key]) f;
    if verdict <> 0 then
        return;
    end if;

    select array_agg(live_order.slot), max(live_order.fence) into v_slots, v_newest_fence
    from (
        select o.slot, o.fence from voucher_order o
        where segment_of(o.voucher_id) = segment_of(v.id)
          and o.user_id = p_user and o.voucher_id = v.id and o.slot >= 1
        order by o.slot
    ) live_order;
    if p_fence between 1 and v.ended_fence then
        v_newest_fence := greatest(v_newest_fence, (
            select o.fence from voucher_order o
            where o.user_id = p_user and o.voucher_id = v.id and o.slot is null
              and o.fence >= p_fence
            order by o.fence limit 1));
    end if;
    if p_fence <> 0 and p_fence <= v_newest_fence then
        verdict := 7;
        return;
    end if;

    verdict := 1;
    insert into voucher_order (voucher_id, id, user_id, fence, price_cents, created_at,
                               expires_at, slot, request_key, due_to_id)
    select v.id, n.id, p_user, nullif(p_fence, 0), v.price_cents, p_at,
           p_at + make_interval(secs => v.pay_within_s),
           (select min(s) from generate_series(1, v.per_user_limit) s
            where (s = any (v_slots)) is not true),
           p_key, n.id
    from next_event_id(v.id) n (id)
    returning id into order_id;
end
$$;
