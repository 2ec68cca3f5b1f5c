-- Place the orders of batches of different vouchers, and release the rows of the vouchers before
-- the commit is durable.
select verdicts, order_ids, details, price, decided_at, expiry, new_stock, new_version, opens, closes, batch
from set_config('synchronous_commit', 'off', true), place_many($1, $2, $3, $4, $5, $6, $7)
order by batch
