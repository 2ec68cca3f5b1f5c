-- Returns at most $3 events of the voucher $1 after the event $2.
select id, voucher_id, order_id, at, stock_change, actor, from_status::text, to_status::text, detail
from voucher_history
where voucher_id = $1::bigint and id > $2::bigint
order by id
limit $3::bigint
