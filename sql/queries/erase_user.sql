-- Erases the shopper $1. Returns what was changed and true, or why nothing was changed and false.
select coalesce(refusal, format('%s orders, %s events, %s keys', orders, events, keys)),
       refusal is null
from erase_user($1::bigint)
