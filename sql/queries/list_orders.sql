-- Returns at most $3 orders of the shopper $7 with ids below $2, the newest first. All of them are
-- orders of the voucher $1 (0: any voucher), have the status $4 (NULL: any status), and were placed
-- at $5 or later, and before $6.
--
-- The query looks into each segment of vouchers (see segment_of.sql). A block is 64 consecutive
-- segments. Blocks without vouchers are skipped, because ids that next_voucher_id() has not made
-- may leave gaps of any size.
with recursive block (n) as (
    (select id >> 22 from voucher where $1::bigint = 0 order by id limit 1)
    union all
    select (select id >> 22 from voucher where id >= (b.n + 1) << 22 order by id limit 1)
    from block b
    where b.n is not null
)
select o.*
from (select segment_of($1) as n where $1 <> 0
      union all
      select generate_series(b.n << 6, least(b.n << 6 | 63, (select segment_of(max(id)) from voucher)))
      from block b) s,
     lateral (select o.id, o.voucher_id, o.user_id, order_detail(o)
              from voucher_order o
              where segment_of(o.voucher_id) = s.n and o.user_id = $7::bigint
                and $1 in (0, o.voucher_id) and o.id < $2::bigint
                and ($4::order_status is null or o.status = $4)
                and o.created_at >= $5::timestamptz and o.created_at < $6::timestamptz
              order by o.voucher_id) o
order by o.id desc
limit $3::bigint
