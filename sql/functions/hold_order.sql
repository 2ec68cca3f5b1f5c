-- Lock the voucher's row, then read the order. Returns NULL if there is no such order, or if another
-- cell has its voucher now.
create or replace function hold_order(p_voucher bigint, p_order bigint) returns voucher_order
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off
as $$
declare
    v_order voucher_order;
begin
    perform from voucher v where v.id = p_voucher for no key update;
    if not found then
        return null;
    end if;
    select * into v_order from voucher_order o
    where o.voucher_id = p_voucher and o.id between p_order and p_order
    order by o.id limit 1;
    return v_order;
end
$$;
