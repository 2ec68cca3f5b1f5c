-- every change of status starts from the status before it and is allowed
select format('voucher %s: event %s of order %s: %s -> %s, before it was %s',
              voucher_id, id, order_id, from_status, to_status, before)
from (
    select *, coalesce(lag(to_status) over (partition by voucher_id, order_id order by id),
                       'unpaid') as before
    from order_event
) e
where from_status <> before
   or (from_status, to_status) not in
      (('unpaid', 'paid'), ('unpaid', 'cancelled'), ('unpaid', 'expired'),
       ('paid', 'refunded'), ('paid', 'redeemed'));
