-- Find out what became of a batch.
select pos, verdict, order_id, detail from resolve_orders($1, $2, $3, $4)
