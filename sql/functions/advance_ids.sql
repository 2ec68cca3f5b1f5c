-- Skip ids of vouchers, orders and events after a restore to an earlier moment. Otherwise the ids
-- that were given after that moment would be given again. Orders and events skip ten billion
-- numbers. Vouchers skip 256 segments. That suffices for 67 million orders and events after that
-- moment, and for 16,384 new vouchers in each of 1,024 cells. The ids suffice for hundreds of
-- restores. Returns the last id of a voucher that may have been used, and the last number of an
-- order.
create or replace function advance_ids(out last_voucher bigint, out last_number bigint)
language sql
as $$
select setval('voucher_id_seq', v.last_value + 256 * 65536),
       setval('voucher_order_id_seq', o.last_value + 10000000000)
from voucher_id_seq v, voucher_order_id_seq o;
$$;

revoke execute on function advance_ids from public;
