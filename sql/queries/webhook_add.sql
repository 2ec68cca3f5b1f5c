-- Adds an endpoint with the URL $1 and the secret $2, for a request of $6 with the key $5 (NULL: no key).
-- The endpoint gets the events behind the position ($3, $4) of the feed. If the position is NULL, the
-- endpoint gets the changes from now on. Returns its state, and its secret unless the request is
-- repeated. See ../functions/add_webhook.sql.
select c.*, w.secret
from add_webhook($1::text, $2::text, $3::bigint, $4::bigint, $5::text, $6::text) w, webhook_columns(w) c
