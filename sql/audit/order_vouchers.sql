-- every order has a voucher, unless another cell has it now
select format('order %s of shopper %s: there is no voucher %s', o.id, o.user_id, o.voucher_id)
from voucher_order o
where not exists (select from voucher v where v.id = o.voucher_id)
  and not exists (select from moved_voucher m where m.id = o.voucher_id);
