-- Returns the order $1, if it belongs to the shopper $2 or $2 is 0. The voucher is found by the
-- last 20 bits of its id, which are also the last 20 bits of the order's id.
select o.*
from (select id
      from voucher
      where id & 1048575 between $1::bigint & 1048575 and $1 & 1048575
      order by id & 1048575) v,
     lateral (select o.id, o.voucher_id, o.user_id, order_detail(o)
              from voucher_order o
              where o.voucher_id = v.id and o.id between $1 and $1 and $2::bigint in (0, o.user_id)
              order by o.id
              limit 1) o
