-- every event of an order comes after the order
-- Compares ids, because times may fall when the clock is set back.
select format('voucher %s: event %s of order %s: there is no such order before it',
              e.voucher_id, e.id, e.order_id)
from order_event e
left join voucher_order o on o.voucher_id = e.voucher_id and o.id = e.order_id
where o.id is null or e.id <= o.id;
