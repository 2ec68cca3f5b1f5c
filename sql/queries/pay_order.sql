-- Pay the orders $2 of the voucher $1. Returns a row per order, in the order of $2.
select r.pos, c.verdict, (c.changed).id, (c.changed).voucher_id, (c.changed).user_id,
       order_detail(c.changed)
from unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[])
     with ordinality r (id, actor, payment_ref, amount_cents, key, pos)
cross join lateral change_order('pay', $1, r.id, r.actor, r.key, r.payment_ref, r.amount_cents) c
