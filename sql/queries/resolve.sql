-- Find out which requests of a batch have placed an order, see ../functions/resolve_orders.sql.
select pos, verdict, order_id, detail from resolve_orders($1, $2, $3, $4)
