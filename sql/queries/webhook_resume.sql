-- Enables the endpoint $1. If $2 is not NULL, the endpoint gets the events behind the position
-- ($2, $3) of the feed, unless the position is beyond the last change. Returns the id of the endpoint.
update webhook
set first = coalesce($2::bigint, first), number = coalesce($3::bigint, number),
    failing_since = null, error = null, disabled_at = null, version = version + 1
where id = $1::bigint
  and coalesce($3::bigint, 0) <= (select s.last_value from voucher_order_id_seq s)
returning id
