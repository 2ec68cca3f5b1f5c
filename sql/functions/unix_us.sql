-- Return a time in microseconds since 1970.
create or replace function unix_us(p_at timestamptz) returns bigint
language sql stable
return (extract(epoch from p_at) * 1000000)::bigint;
