-- Returns the state of each endpoint, see ../functions/webhook_columns.sql, without its secret.
select c.*, null::text as secret
from webhook w, webhook_columns(w) c
order by w.id
