-- Expire the unpaid orders of the batches that begin with $2 of the voucher $1.
select expired, ended from expire_batches($1, $2)
