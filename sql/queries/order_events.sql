-- Returns at most $3 events of the order $4 of the voucher $1, after the event $2. The placement of
-- an order is the event with the id of the order. The changes are found by the index of orders.
select id, voucher_id, order_id, at, stock_change, actor, from_status::text, to_status::text, detail
from ((select *
       from voucher_history
       where voucher_id = $1::bigint and id between $4::bigint and $4
       order by id
       limit 1)
      union all
      (select *
       from voucher_history
       where voucher_id = $1 and order_id = $4 and from_status is not null
       order by id)) of_order
where id > $2::bigint
order by id
limit $3::bigint
