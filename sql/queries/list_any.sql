-- The vouchers with ids below $1, $2 at most.
-- Returns the clock even if there is no voucher. Then the other columns are NULL.
select v.*, clock_timestamp()
from (values (1)) as always
left join lateral (
    select id, version, title, description, price_cents, face_value_cents, stock_total, stock_left,
           per_user_limit, pay_within_s, begin_at, end_at, requires_ticket::int::bigint, pow_bits
    from voucher
    where id < $1::bigint
    order by id desc
    limit $2::bigint
) v on true
