-- Expire the unpaid and overdue orders of the batches p_firsts. A batch is named by the id of its
-- first order, whose due_to_id is the id of the last order of the batch. At most 500 orders expire
-- in one call, because the voucher cannot be sold meanwhile.
--
-- Then go through p_firsts in order. If a batch has no unpaid order left, set its due_to_id to
-- null, which removes the batch from the index of payment deadlines. Stop at the first batch that
-- has an unpaid order, or that was removed before. `ended` is the number of batches that were
-- removed.
create or replace function expire_batches(p_voucher bigint, p_firsts bigint[],
    out expired bigint, out ended bigint)
language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off set search_path from current
as $$
declare
    v_first bigint;
begin
    ended := 0;
    perform from voucher v where v.id = p_voucher for no key update;
    if not found then -- another cell has the voucher now
        expired := 0;
        return;
    end if;
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
