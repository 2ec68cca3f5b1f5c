-- after unix_us
--
-- Return what an order has besides its ids, as numbers: price, created, expires, paid (0: never)
-- and status (0: unpaid). Times are those of unix_us(). The line "after unix_us" tells
-- ../queries/changed_functions.sql to create unix_us() first, because this function calls it.
create or replace function order_detail(o voucher_order) returns bigint[]
language sql stable
return array[o.price_cents, unix_us(o.created_at), unix_us(o.expires_at),
             coalesce(unix_us(o.paid_at), 0),
             array_position(enum_range(null::order_status), o.status) - 1];
