-- Expire overdue orders of the voucher $1, in the batches whose first orders are $2.
select expired, ended from expire_batches($1, $2)
