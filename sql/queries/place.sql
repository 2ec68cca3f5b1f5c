-- Place the orders of a batch.
select verdicts, order_ids, details, price, decided_at, expiry, new_stock, new_version, opens, closes,
       1::bigint -- the number of the batch
from place_orders($1, $2, $3, $4, $5)
