-- Return an id: the orders of the voucher with smaller ids were placed before the time `p_since`,
-- and the others at that time or later. Ids grow with time, so no index of times is needed: the
-- search reads one order for each bit of an id. If the clock was set back and showed `p_since`
-- twice, the result is right for one of the two moments.
create or replace function first_order_since(p_voucher bigint, p_since timestamptz) returns bigint
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off
as $$
declare
    v_from bigint := 0; -- orders with smaller ids were placed before p_since
    v_to bigint := 9223372036854775807; -- orders with this or a greater id were not
    v_middle bigint;
    v_order record;
begin
    while v_from < v_to loop
        v_middle := v_from + (v_to - v_from) / 2;
        select o.id, o.created_at into v_order from voucher_order o
        where o.voucher_id = p_voucher and o.id >= v_middle
        order by o.id limit 1;
        if v_order.created_at < p_since then
            v_from := v_order.id + 1;
        else
            v_to := v_middle;
        end if;
    end loop;
    return v_from;
end
$$;
