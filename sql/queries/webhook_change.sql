-- Enables the endpoint $1 if $2 is 1; otherwise disables it in the name of $5. If $3 is not NULL, the
-- endpoint gets the events behind the position ($3, $4) of the feed. Returns its state. If there is no
-- such endpoint, returns no row. See ../functions/change_webhook.sql.
select c.*, null::text as secret
from change_webhook($1::bigint, $2::bigint = 1, $3::bigint, $4::bigint, $5::text) w, webhook_columns(w) c
