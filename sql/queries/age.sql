-- The age of the data in a database of lists, in seconds.
select coalesce(greatest(0, ceil(extract(epoch from clock_timestamp() - min(alive_at))))::bigint, 0)
from cell
where number >= 0
