-- after unix_us
--
-- Return the data of an order besides its ids, as numbers: price, created, expires, paid
-- (0: never), status (0: unpaid).
create or replace function order_detail(o voucher_order) returns bigint[]
language sql stable
return array[o.price_cents, unix_us(o.created_at), unix_us(o.expires_at),
             coalesce(unix_us(o.paid_at), 0),
             array_position(enum_range(null::order_status), o.status) - 1];
