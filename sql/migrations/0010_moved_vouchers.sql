-- The vouchers that this cell has given to another one, as they were at that moment: see
-- functions/give_half.sql. Their orders and their history stay here until delete_moved() deletes them.
create table moved_voucher (
    id bigint primary key,
    voucher jsonb not null,
    moved_at timestamptz not null default clock_timestamp()
);

-- The payments of the moved orders are replicated. The row filter of a publication needs a column that
-- has no domain as its type and belongs to the replica identity.
set local lock_timeout = '5s';

alter table payment alter order_id type bigint;
alter table payment add constraint payment_order_id check (order_id > 0) not valid;
alter table payment replica identity full;
