-- The age of the data in a database of lists, in seconds; 0 without a cell.
select greatest(0, ceil(extract(epoch from clock_timestamp() - min(alive_at))))::bigint
from cell
where number >= 0
