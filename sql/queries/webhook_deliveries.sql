-- Returns the last deliveries of the endpoint $1, the newest first: the id of the event, the time, the
-- duration in ms, and why the endpoint did not receive the event. Without a delivery, returns one row
-- without an id. If there is no such endpoint, returns no row.
select d.event_id, d.at, d.duration_ms, d.error
from webhook w
left join lateral unnest(w.deliveries) with ordinality d on true
where w.id = $1::bigint
order by d.ordinality desc
