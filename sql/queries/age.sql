-- Returns the age of the data in the database of the lists, in seconds, or 0 if the database has no
-- cell.
select greatest(0, ceil(extract(epoch from clock_timestamp() - min(alive_at))))::bigint
from cell
where number >= 0
