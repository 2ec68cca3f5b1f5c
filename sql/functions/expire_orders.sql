-- Expire the orders of p_orders that are unpaid and overdue, and return their number. An order
-- that another session has locked is skipped, because waiting for it would block the sale.
create or replace function expire_orders(p_voucher bigint, p_orders bigint[]) returns bigint
language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off set search_path from current
as $$
declare
    v_at timestamptz;
    v_due bigint[];
begin
    perform from voucher v where v.id = p_voucher for no key update;
    if not found then
        return 0; -- another cell has the voucher now
    end if;
    v_at := clock_timestamp();
    v_due := array(
        select due.id
        from unnest(p_orders) c (id)
        cross join lateral (
            select o.id from voucher_order o
            where o.voucher_id = p_voucher and o.id between c.id and c.id
              and o.expires_at <= v_at
            order by o.id limit 1
            for no key update skip locked
        ) due);
    return move_orders(p_voucher, v_due, 'unpaid', 'expired', v_at, 'system');
end
$$;

revoke execute on function expire_orders from public;
