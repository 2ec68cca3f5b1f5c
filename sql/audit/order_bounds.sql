-- all columns of orders are within their bounds
select format('voucher %s: order %s: user_id %s, price_cents %s, fence %s, request_key "%s"',
              voucher_id, id, user_id, price_cents, coalesce(fence::text, 'none'), request_key)
from voucher_order
where user_id <= 0
   or fence <= 0
   or price_cents not between 0 and 1000000000000
   or octet_length(request_key) not between 1 and 80;
