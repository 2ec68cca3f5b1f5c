-- Lower the fences of orders that are more than a day ahead of the clock. To be called by the owner
-- after the fence counter in Redis was too great. Otherwise the shoppers of these orders could not
-- order the same vouchers again, because no lock would get a greater fence. The new fence of an
-- order is the time of its placement in microseconds, which is also the unit of fences. So later
-- fences are greater, and earlier fences stay stale. This function reads all orders, and locks the
-- vouchers that it changes. Returns the number of changed orders.
create or replace function repair_fences() returns bigint
language plpgsql
as $$
declare
    v_most bigint := unix_us(clock_timestamp() + interval '1 day');
    v_voucher bigint;
    v_orders bigint;
    v_changed bigint := 0;
begin
    for v_voucher in
        select o.voucher_id from voucher_order o where o.fence > v_most
        union
        select v.id from voucher v where v.ended_fence > v_most
        order by 1
    loop
        perform from voucher where id = v_voucher for no key update;
        update voucher_order set fence = unix_us(created_at)
        where voucher_id = v_voucher and fence > v_most;
        get diagnostics v_orders = row_count;
        v_changed := v_changed + v_orders;
        update voucher
        set ended_fence = coalesce((select max(o.fence) from voucher_order o
                                    where o.voucher_id = v_voucher), 0)
        where id = v_voucher and ended_fence > v_most;
    end loop;
    return v_changed;
end
$$;

revoke execute on function repair_fences from public;
