-- Returns at most $3 vouchers whose sale has not begun, the earliest begin first. The list begins
-- after the voucher with the begin $1 and the id $2.
-- If there are none, returns one row in which only the clock is set.
select c.*, clock_timestamp()
from (values (1)) as always
left join lateral (
    select c.*, l.*
    from voucher v, voucher_columns(v) c, lottery_columns(v) l
    where v.begin_at > now() and (v.begin_at, v.id) > ($1, $2)
    order by v.begin_at, v.id
    limit $3::bigint
) c on true
