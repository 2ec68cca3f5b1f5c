-- ended_fence is at least the fence of every shopper whose slot 1 is free
select format('voucher %s: ended_fence is %s, shopper %s has fence %s',
              o.voucher_id, v.ended_fence, o.user_id, o.newest)
from (
    select voucher_id, user_id, max(fence) as newest
    from voucher_order
    group by voucher_id, user_id
    having bool_and(slot is distinct from 1::smallint)
) o
join voucher v on v.id = o.voucher_id
where o.newest > v.ended_fence
union all
select format('voucher %s: ended_fence is %s, ended order %s has fence %s',
              o.voucher_id, v.ended_fence, o.id, o.fence)
from voucher_order o
join voucher v on v.id = o.voucher_id
where o.slot is null and o.fence > v.ended_fence;
