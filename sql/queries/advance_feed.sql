-- Returns up to which number the feed can be read, see ../functions/advance_feed.sql.
select until, last_number, xid
from advance_feed($1::bigint, $2::bigint, $3::bigint)
