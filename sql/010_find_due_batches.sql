-- The index of deadlines holds batches instead of orders, see 009.

-- Wait for what began before 009, and find its unpaid orders together with the older ones:
-- those of a voucher that have one deadline were a batch. Programs of the version before
-- look for single orders; until they are replaced they read the whole table for it.
lock table voucher in exclusive mode;

update voucher_order first
set due_to_id = batch.last_id
from (
    select voucher_id, min(id) as first_id, max(id) as last_id
    from voucher_order
    where status = 'unpaid'
    group by voucher_id, expires_at
) batch
where first.voucher_id = batch.voucher_id and first.id = batch.first_id;

drop index voucher_order_due;
create index voucher_order_due on voucher_order (expires_at) where due_to_id is not null;
