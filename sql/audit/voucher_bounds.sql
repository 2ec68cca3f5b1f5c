-- all columns of vouchers are within their bounds
select format('voucher %s: price_cents %s, face_value_cents %s, stock_total %s,'
              ' per_user_limit %s, pay_within_s %s, begin_at %s, end_at %s',
              id, price_cents, face_value_cents, stock_total, per_user_limit, pay_within_s,
              begin_at, end_at)
from voucher
where id not between 1 and 8796093022207
   or price_cents not between 0 and 1000000000000
   or face_value_cents not between 0 and 1000000000000
   or stock_total not between 0 and 100000000
   or per_user_limit not between 1 and 100
   or pay_within_s not between 1 and 2592000
   or end_at <= begin_at
   or char_length(title) not between 1 and 200
   or char_length(description) > 4000;
