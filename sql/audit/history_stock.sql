-- the history of the stock adds up to stock_total and stock_left
select format('voucher %s: stock_total %s, stock_left %s; its history gives %s and %s',
              coalesce(v.id, h.voucher_id), v.stock_total, v.stock_left, h.total, h.stock)
from voucher v
full join (
    select voucher_id, sum(stock_change) as stock,
           sum(stock_change) filter (where order_id is null) as total
    from voucher_history
    group by voucher_id
) h on h.voucher_id = v.id
where not exists (select from moved_voucher m where m.id = h.voucher_id)
  and (v.stock_total is distinct from h.total or v.stock_left is distinct from h.stock);
