-- Returns at most $3 orders of the voucher $1 with ids below $2, the newest first. All of them have
-- the status $4 (NULL: any status), and were placed at $5 or later, and before $6. To find them, at
-- most 10,000 orders are read. If more would have to be read, the list ends with a row that has
-- only an id, that of the last order read, and the next list begins below this id.
with bounds as materialized (
    select first_order_since($1, $5) as first_id, least($2::bigint, first_order_since($1, $6)) as end_id
), scanned as not materialized (
    select o.id, o.status, o.created_at
    from voucher_order o
    where o.voucher_id = $1::bigint and o.id >= (select first_id from bounds)
      and o.id < (select end_id from bounds)
    order by o.id desc
    limit 10000
), matching as materialized (
    select s.id
    from scanned s
    where ($4::order_status is null or s.status = $4)
      and s.created_at >= $5::timestamptz and s.created_at < $6::timestamptz
    limit $3::bigint
)
select o.*
from matching m,
     lateral (select o.id, o.voucher_id, o.user_id, order_detail(o)
              from voucher_order o
              where o.voucher_id = $1 and o.id between m.id and m.id
              order by o.id
              limit 1) o
union all
(select s.id, null, null, null
 from scanned s
 where (select count(*) from matching) < $3
 offset 9999)
