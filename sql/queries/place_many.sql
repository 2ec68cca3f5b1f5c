-- Place the orders of several batches, each of another voucher.
select verdicts, order_ids, details, price, decided_at, expiry, new_stock, new_version, opens, closes, batch
from place_many($1, $2, $3, $4, $5, $6, $7)
order by batch
