-- Add $2 to the stock of the voucher $1 for a request with the key $4 (NULL: no key).
-- If there is no such voucher, returns one row in which only the clock is set.
select c.*, clock_timestamp()
from (values (1)) as always
left join lateral (
    select c.*, l.*
    from restock_voucher_once($4, $1, $2, $3) v, voucher_columns(v) c, lottery_columns(v) l
) c on true
