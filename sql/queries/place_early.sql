-- Place the orders of a batch, and release its voucher's row before the commit is durable.
select verdicts, order_ids, details, price, decided_at, expiry, new_stock, new_version, opens, closes,
       1::bigint -- the number of the batch
from set_config('synchronous_commit', 'off', true), place_orders($1, $2, $3, $4, $5)
