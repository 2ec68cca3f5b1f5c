-- every paid order has the same payment in its row and in its history
select format('voucher %s: order %s was paid %s with "%s", its history says %s with "%s"',
              o.voucher_id, o.id, coalesce(o.paid_at::text, 'never'), o.payment_ref,
              coalesce(e.at::text, 'never'), e.detail)
from (select * from voucher_order where paid_at is not null) o
full join (select * from order_event where to_status = 'paid') e
    on e.voucher_id = o.voucher_id and e.order_id = o.id
where e.at is distinct from o.paid_at or e.detail is distinct from o.payment_ref;
