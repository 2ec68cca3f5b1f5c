-- the times of every order are consistent
-- Compares only times from one reading of the clock, which may be set back between two.
select format('voucher %s: order %s is %s, created %s, expires %s, paid %s',
              voucher_id, id, status, created_at, expires_at,
              coalesce(paid_at::text, 'never'))
from voucher_order
where expires_at <= created_at
   or (paid_at is null) <> (status in ('unpaid', 'cancelled', 'expired'));
