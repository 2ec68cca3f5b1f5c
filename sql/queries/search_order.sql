-- Returns the order $8 or, if $8 is NULL, the order that the payment $9 has paid. The order is
-- returned only if all these conditions are true: its id is below $2; its voucher is $1 (0: any);
-- its status is $4 (NULL: any); it was placed at $5 or later, and before $6; its shopper is $7 (0:
-- any); and it was paid by the payment $9 (NULL: any or none). As in other lists, there are at most
-- $3 rows.
select o.*
from (select coalesce($8::bigint, (select order_id from payment
                                   where payment_ref = $9::payment_ref
                                   order by payment_ref)) as id) wanted,
     lateral (select v.id
              from voucher v
              where v.id & 1048575 between wanted.id & 1048575 and wanted.id & 1048575
              order by v.id & 1048575) v,
     lateral (select o.id, o.voucher_id, o.user_id, order_detail(o)
              from voucher_order o
              where o.voucher_id = v.id and o.id between wanted.id and wanted.id
                and o.id < $2::bigint and $1::bigint in (0, o.voucher_id)
                and ($4::order_status is null or o.status = $4)
                and o.created_at >= $5::timestamptz and o.created_at < $6::timestamptz
                and $7::bigint in (0, o.user_id)
                and ($9 is null or o.payment_ref = $9)
              order by o.id
              limit 1) o
limit $3::bigint
