-- At most $4 changes of all vouchers behind the position $1, $2 of the feed, up to the number $3, see
-- ../functions/feed_events.sql.
select *
from feed_events($1::bigint, $2::bigint, $3::bigint, $4::bigint)
