-- Return an id for a new order or event of this voucher. The caller holds the lock of the voucher's
-- row.
create or replace function next_event_id(p_voucher bigint) returns bigint
language sql volatile
return nextval('voucher_order_id_seq') * 1048576 + p_voucher % 1048576;
