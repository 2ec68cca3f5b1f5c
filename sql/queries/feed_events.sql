-- Returns the changes of all vouchers that come after the position ($1, $2) of the feed, up to the
-- number $3, at most $4 of them. See ../functions/feed_events.sql.
select *
from feed_events($1::bigint, $2::bigint, $3::bigint, $4::bigint)
