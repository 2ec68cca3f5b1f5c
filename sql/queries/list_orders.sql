-- The orders of the shopper $1, of the voucher $2 or, if that is 0, of all, with ids below $3, $4 at
-- most. One look-up per segment of vouchers.
select o.*
from generate_series(segment_of($2::bigint), case $2
         when 0 then (select segment_of(max(id)) from voucher) else segment_of($2) end) s (n),
     lateral (select o.id, o.voucher_id, o.user_id, order_detail(o)
              from voucher_order o
              where segment_of(o.voucher_id) = s.n and o.user_id = $1::bigint
                and $2 in (0, o.voucher_id) and o.id < $3::bigint
              order by o.voucher_id) o
order by o.id desc
limit $4::bigint
