-- Create a voucher.
-- Returns the clock even if there is no voucher. Then the other columns are NULL.
select v.*, clock_timestamp()
from (values (1)) as always
left join lateral (
    select id, version, title, description, price_cents, face_value_cents, stock_total, stock_left,
           per_user_limit, pay_within_s, begin_at, end_at, requires_ticket::int::bigint, pow_bits
    from create_voucher(next_voucher_id(), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::bigint = 1, $12)
) v on true
