-- Find the orders that shoppers placed with these request keys.
select pos, verdict, order_id, detail from find_orders($1, $2, $3)
