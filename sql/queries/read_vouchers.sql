-- Returns the vouchers $1 for the catalogue, without their texts.
-- If there are none, returns one row in which only the clock is set.
select v.*, clock_timestamp()
from (values (1)) as always
left join lateral (
    select id, version, ''::text, ''::text, price_cents, face_value_cents, stock_total, stock_left,
           per_user_limit, pay_within_s, begin_at, end_at, requires_ticket::int::bigint, pow_bits,
           commitment::text, null::text, drawn_at
    from voucher
    where id = any ($1::bigint[])
) v on true
