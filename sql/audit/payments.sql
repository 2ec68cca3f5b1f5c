-- every payment has paid exactly one order, unless the order is archived
-- An aggregate has no rows of the table payment, but it has the orders of all cells. So only a payment
-- that has paid two orders is found there.
select format('payment_ref "%s": paid %s, belongs to order %s', payment_ref,
              coalesce('orders ' || array_to_string(o.ids[1:5], ' '), 'no order'),
              coalesce(p.order_id::text, 'none'))
from (
    select payment_ref, array_agg(id::bigint order by id) as ids
    from voucher_order
    where payment_ref is not null
    group by payment_ref
) o
full join payment p using (payment_ref)
where case when exists (select from cell where number < 0) then cardinality(o.ids) > 1
           else o.ids is distinct from case when not p.is_archived then array[p.order_id::bigint] end
      end;
