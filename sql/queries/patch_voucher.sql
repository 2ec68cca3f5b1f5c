-- Change the voucher $1. A parameter that is NULL leaves its column unchanged.
-- If there is no such voucher, returns one row in which only the clock is set.
select c.*, clock_timestamp()
from (values (1)) as always
left join lateral (
    select c.*, l.*
    from patch_voucher($1, $2, $3, $4, $5, $6, $7::bigint = 1, $8, $9) v, voucher_columns(v) c,
         lottery_columns(v) l
) c on true
