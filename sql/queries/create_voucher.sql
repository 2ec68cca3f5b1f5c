-- Create a voucher for a request with the key $13 (NULL: no key).
-- If no voucher results, returns one row in which only the clock is set.
select c.*, clock_timestamp()
from (values (1)) as always
left join lateral (
    select c.*
    from create_voucher_once($13, next_voucher_id(), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
                             $11::bigint = 1, $12) v,
         voucher_columns(v) c
) c on true
