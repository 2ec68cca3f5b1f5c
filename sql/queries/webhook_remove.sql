-- Removes the endpoint $1. Returns its last state. If there is no such endpoint, returns no row.
select c.*, null::text as secret
from remove_webhook($1::bigint) w, webhook_columns(w) c
