-- Adds an endpoint with the URL $1 and the secret $2, unless there are 64 endpoints or the position
-- ($3, $4) of the feed is beyond the last change. The endpoint gets the events behind this position.
-- If the position is NULL, the endpoint gets the changes from now on. Returns the id of the endpoint.
insert into webhook (url, secret, first, number)
select $1::text, $2::text, coalesce($3::bigint, s.last_value - (not s.is_called)::integer),
       coalesce($4::bigint, s.last_value - (not s.is_called)::integer)
from voucher_order_id_seq s
where (select count(*) from webhook) < 64 and coalesce($4::bigint, 0) <= s.last_value
returning id
