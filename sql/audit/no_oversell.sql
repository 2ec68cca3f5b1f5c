-- no oversell: stock_total = stock_left + live orders, and stock_left >= 0
select format('voucher %s: stock_total %s, stock_left %s, live orders %s',
              v.id, v.stock_total, v.stock_left, coalesce(o.live, 0))
from voucher v
left join (
    select voucher_id, count(*) as live
    from voucher_order
    where status in ('unpaid', 'paid', 'redeemed')
    group by voucher_id
) o on o.voucher_id = v.id
where v.stock_left < 0
   or v.stock_total is distinct from v.stock_left + coalesce(o.live, 0);
