-- Returns at most $3 events of the voucher $1 after the event $2, without the events of its orders.
select id::bigint, voucher_id, null::bigint, at, stock_change, actor::text, null, null, detail
from stock_event
where voucher_id = $1::bigint and id > $2::bigint
order by id
limit $3::bigint
