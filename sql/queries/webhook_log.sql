-- Returns the last deliveries of the endpoint $1: a text and the id of the endpoint per row. Without a
-- delivery, returns one row without a text. If there is no such endpoint, returns no row.
select case when d.event_id is not null then
           format('%s evt_%s %s in %s ms%s',
                  to_char(d.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), d.event_id,
                  case when d.error is null then 'delivered' else 'failed' end, d.duration_ms,
                  ': ' || d.error) end,
       w.id
from webhook w
left join lateral unnest(w.deliveries) with ordinality d on true
where w.id = $1::bigint
order by d.ordinality
