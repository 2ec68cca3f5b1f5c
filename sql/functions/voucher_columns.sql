-- Return the columns of a voucher that the service reads, in the order of `enum voucher_column` in
-- app/store/store_vouchers.c. The planner replaces the call by the columns, so the call costs
-- nothing.
create or replace function voucher_columns(v voucher)
returns table (id bigint, version bigint, title text, description text, price_cents bigint,
               face_value_cents bigint, stock_total integer, stock_left integer,
               per_user_limit smallint, pay_within_s integer, begin_at timestamptz,
               end_at timestamptz, requires_ticket bigint, pow_bits smallint)
language sql stable rows 1
as $$
    select v.id, v.version, v.title, v.description, v.price_cents, v.face_value_cents,
           v.stock_total, v.stock_left, v.per_user_limit, v.pay_within_s, v.begin_at, v.end_at,
           v.requires_ticket::int::bigint, v.pow_bits
$$
