-- Redeem the orders $2 of the voucher $1. Returns a row per order, in the order of $2.
select r.pos, c.verdict, (c.changed).id, (c.changed).voucher_id, (c.changed).user_id,
       order_detail(c.changed)
from unnest($2::bigint[], $3::text[], $4::text[]) with ordinality r (id, actor, key, pos)
cross join lateral change_order('redeem', $1, r.id, r.actor, r.key, null, null) c
