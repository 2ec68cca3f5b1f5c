-- every event of an order comes after the order
select format('voucher %s: event %s of order %s at %s: the order was placed %s',
              e.voucher_id, e.id, e.order_id, e.at, coalesce(o.created_at::text, 'never'))
from order_event e
left join voucher_order o on o.voucher_id = e.voucher_id and o.id = e.order_id
where o.id is null or e.id <= o.id or e.at < o.created_at;
