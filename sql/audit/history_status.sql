-- the last event of every order leads to the status that the order has
select format('voucher %s: order %s is %s, its history ends %s',
              o.voucher_id, o.id, o.status, coalesce(e.last, 'unpaid'))
from voucher_order o
left join (
    select distinct on (voucher_id, order_id) voucher_id, order_id, to_status as last
    from order_event
    order by voucher_id, order_id, id desc
) e on e.voucher_id = o.voucher_id and e.order_id = o.id
where o.status <> coalesce(e.last, 'unpaid');
