-- no duplicate: no shopper has more live orders than per_user_limit
select format('voucher %s: shopper %s has %s live orders (%s), the limit is %s',
              o.voucher_id, o.user_id, o.live, array_to_string(o.ids, ' '), v.per_user_limit)
from (
    select voucher_id, user_id, count(*) as live, (array_agg(id))[1:5] as ids
    from voucher_order
    where status in ('unpaid', 'paid', 'redeemed')
    group by voucher_id, user_id
) o
join voucher v on v.id = o.voucher_id
where o.live > v.per_user_limit;
