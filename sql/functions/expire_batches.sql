-- Expire the unpaid and overdue orders of these batches, each named by its first order (see
-- due_to_id). Expires at most 500 orders, because the sale of the voucher waits meanwhile. From the
-- first batch on, batches without unpaid orders leave the index of deadlines, until a batch still has
-- an unpaid order. `ended` is the number of batches that left.
create or replace function expire_batches(p_voucher bigint, p_firsts bigint[],
    out expired bigint, out ended bigint)
language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off set search_path from current
as $$
declare
    v_first bigint;
begin
    perform from voucher v where v.id = p_voucher for no key update;
    expired := expire_orders(p_voucher, array(
        select unpaid.id
        from unnest(p_firsts) c (id)
        cross join lateral (
            select o.due_to_id from voucher_order o
            where o.voucher_id = p_voucher and o.id between c.id and c.id
            order by o.id limit 1
        ) batch
        cross join lateral (
            select o.id from voucher_order o
            where o.voucher_id = p_voucher and o.id between c.id and batch.due_to_id
              and o.status = 'unpaid'
            order by o.id
        ) unpaid
        limit 500));

    ended := 0;
    foreach v_first in array p_firsts loop
        update voucher_order batch
        set due_to_id = null
        where batch.voucher_id = p_voucher and batch.id = v_first
          and batch.due_to_id is not null
          and (select o.id from voucher_order o
               where o.voucher_id = p_voucher and o.id between batch.id and batch.due_to_id
                 and o.status = 'unpaid'
               order by o.id limit 1) is null;
        exit when not found;
        ended := ended + 1;
    end loop;
end
$$;

revoke execute on function expire_batches from public;
