-- Returns the voucher $1.
-- If there is none, returns one row in which only the clock is set.
select c.*, clock_timestamp()
from (values (1)) as always
left join lateral (
    select c.*, l.*
    from voucher v, voucher_columns(v) c, lottery_columns(v) l
    where v.id = $1::bigint
) c on true
