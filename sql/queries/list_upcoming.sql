-- The vouchers that have not begun, after ($1, $2), $3 at most.
-- Returns the clock even if there is no voucher. Then the other columns are NULL.
select v.*, clock_timestamp()
from (values (1)) as always
left join lateral (
    select id, version, title, description, price_cents, face_value_cents, stock_total, stock_left,
           per_user_limit, pay_within_s, begin_at, end_at, requires_ticket::int::bigint, pow_bits
    from voucher
    where begin_at > now() and (begin_at, id) > ($1, $2)
    order by begin_at, id
    limit $3::bigint
) v on true
