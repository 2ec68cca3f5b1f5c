-- no two orders hold the same slot
select format('voucher %s: shopper %s holds slot %s with %s orders (%s)',
              voucher_id, user_id, slot, count(*), array_to_string((array_agg(id))[1:5], ' '))
from voucher_order
where slot is not null
group by voucher_id, user_id, slot
having count(*) > 1;
