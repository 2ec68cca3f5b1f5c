-- Returns the vouchers with overdue orders, except $2, and the first orders of at most $1 overdue
-- batches. Calls beat(), which returns 0.
select voucher_id, array_agg(id)
from (select voucher_id, id
      from voucher_order
      where due_to_id is not null and expires_at <= now()
        and voucher_id <> all ($2::bigint[] || array(select id from moved_voucher))
      order by expires_at
      limit $1::bigint + beat()) due
group by voucher_id
