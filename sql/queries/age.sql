-- The age in s of what a database of lists contains.
select coalesce(greatest(0, ceil(extract(epoch from clock_timestamp() - min(alive_at))))::bigint, 0)
from cell
where number >= 0
