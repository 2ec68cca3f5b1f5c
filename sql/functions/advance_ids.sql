-- To be called after a restore to an earlier moment. It skips ids of vouchers, orders and events,
-- so that ids which were given after that moment are not given again. For orders and events it
-- skips ten billion numbers, and for vouchers 256 segments. This suffices if after that moment
-- there were up to 67 million orders and events, and in each of 1,024 cells 16,384 new vouchers.
-- There are enough ids for hundreds of restores. Returns the last id of a voucher that may have
-- been given, and the last number of an order.
create or replace function advance_ids(out last_voucher bigint, out last_number bigint)
language sql
as $$
select setval('voucher_id_seq', v.last_value + 256 * 65536),
       setval('voucher_order_id_seq', o.last_value + 10000000000)
from voucher_id_seq v, voucher_order_id_seq o;
$$;

revoke execute on function advance_ids from public;
