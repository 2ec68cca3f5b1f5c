-- the times of every order are consistent
-- Compares only times from one reading of the clock, because the clock may be set back between two
-- readings.
select format('voucher %s: order %s is %s, created %s, expires %s, paid %s',
              voucher_id, id, status, created_at, expires_at,
              coalesce(paid_at::text, 'never'))
from voucher_order
where expires_at <= created_at
   or (paid_at is null) <> (status in ('unpaid', 'cancelled', 'expired'));
