-- Create vouchers, in the order of the arrays, for a request with the key $13 (NULL: no key). Each
-- voucher but the first has a key of its own, which is derived from $13 and its position. If the
-- request is repeated and a voucher has been archived, its row is null except for the clock.
select c.*, l.*, clock_timestamp()
from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
            $7::timestamptz[], $8::timestamptz[], $9::bigint[], $11::bigint[], $12::bigint[],
            $14::bigint[])
         with ordinality as n(title, description, price_cents, face_value_cents, stock,
                              per_user_limit, begin_at, end_at, pay_within_s, requires_ticket,
                              pow_bits, is_lottery, position)
left join lateral create_voucher_once(
    case n.position when 1 then $13 else md5($13 || '#' || n.position) end,
    next_voucher_id(), n.title, n.description, n.price_cents, n.face_value_cents, n.stock,
    n.per_user_limit, n.begin_at, n.end_at, n.pay_within_s, $10, n.requires_ticket = 1,
    n.pow_bits, cardinality($1), n.is_lottery = 1) v on true
left join lateral voucher_columns(v) c on true
left join lateral lottery_columns(v) l on true
order by n.position
