-- Returns at most $2 vouchers with ids below $1, the newest first.
-- If there are none, returns one row in which only the clock is set.
select c.*, clock_timestamp()
from (values (1)) as always
left join lateral (
    select c.*, l.*
    from voucher v, voucher_columns(v) c, lottery_columns(v) l
    where v.id < $1::bigint
    order by v.id desc
    limit $2::bigint
) c on true
