-- Removes the endpoint $1. Returns its id.
delete from webhook where id = $1::bigint returning id
