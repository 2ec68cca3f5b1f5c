-- Erases the shoppers of the next sale that ended at least $1 days ago, and moves the sale to the
-- schema $2. Returns what was changed, and true; no row if there is no further sale.
select format('voucher %s: %s orders, %s events, %s keys', voucher, orders, events, keys), true
from erase_ended($1::integer, $2::text)
where voucher is not null
