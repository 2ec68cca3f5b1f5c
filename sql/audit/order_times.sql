-- the times of every order are consistent
select format('voucher %s: order %s created %s, expires %s, paid %s; voucher created %s',
              o.voucher_id, o.id, o.created_at, o.expires_at,
              coalesce(o.paid_at::text, 'never'), v.created_at)
from voucher_order o
join voucher v on v.id = o.voucher_id
where o.created_at < v.created_at
   or o.expires_at <= o.created_at
   or o.paid_at < o.created_at
   or (o.paid_at is null) <> (o.status in ('unpaid', 'cancelled', 'expired'));
