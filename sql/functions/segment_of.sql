-- Return the segment of a voucher. A segment is 65,536 consecutive ids of vouchers. The index
-- voucher_order_slot begins with this expression, so the orders of a segment are together in the
-- index. See next_voucher_id().
create or replace function segment_of(p_voucher bigint) returns bigint
language sql immutable
return p_voucher >> 16;
