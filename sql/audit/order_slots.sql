-- every live order holds a slot within the limit, and no ended order holds a slot
select format('voucher %s: order %s of shopper %s is %s and has slot %s, the limit is %s',
              o.voucher_id, o.id, o.user_id, o.status, coalesce(o.slot::text, 'none'),
              v.per_user_limit)
from voucher_order o
join voucher v on v.id = o.voucher_id
where case when o.status in ('unpaid', 'paid', 'redeemed')
           then (o.slot between 1 and v.per_user_limit) is not true
           else o.slot is not null end;
