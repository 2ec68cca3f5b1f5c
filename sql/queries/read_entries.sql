-- Returns the first $3 entries of the lottery $1, from the hash $2 on, if the draw has ended.
select encode(e.rank, 'hex'), e.has_won::int
from (select id from voucher where id = $1::bigint and drawn_at is not null) v
cross join lateral (
    select d.rank, d.has_won from drawn_entry d
    where d.voucher_id = v.id and d.rank >= decode($2, 'hex')
    order by d.rank
    limit $3::bigint) e
order by e.rank
