-- order ids are unique and match their voucher
select format('order %s: occurs %s times, for vouchers %s',
              id, count(*), array_to_string((array_agg(voucher_id))[1:5], ' '))
from voucher_order
group by id
having count(*) > 1 or min(id) <= 0 or bool_or((id - voucher_id) % 1048576 <> 0);
