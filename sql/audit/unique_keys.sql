-- no request key made two orders
select format('voucher %s: key "%s" of shopper %s made %s orders (%s)',
              voucher_id, request_key, user_id, count(*),
              array_to_string((array_agg(id))[1:5], ' '))
from voucher_order
where request_key is not null
group by voucher_id, user_id, request_key
having count(*) > 1;
