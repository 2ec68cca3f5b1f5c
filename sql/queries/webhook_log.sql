-- Returns the last deliveries of the endpoint $1: one text per row.
select format('%s evt_%s %s in %s ms%s',
              to_char(d.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), d.event_id,
              case when d.error is null then 'delivered' else 'failed' end, d.duration_ms,
              ': ' || d.error)
from webhook w, unnest(w.deliveries) with ordinality d
where w.id = $1::bigint
order by d.ordinality
