-- Create a voucher. The domains and CHECKs of the table validate the fields.
create or replace function create_voucher(p_voucher bigint, p_title text, p_description text,
    p_price_cents bigint, p_face_value_cents bigint, p_stock bigint, p_per_user_limit bigint,
    p_begin_at timestamptz, p_end_at timestamptz, p_pay_within_s bigint,
    p_actor text default 'admin', p_requires_ticket boolean default false,
    p_pow_bits bigint default 0)
returns setof voucher
language plpgsql security definer set search_path from current
as $$
begin
    return query
    with created as (
        insert into voucher (id, title, description, price_cents, face_value_cents,
                             stock_total, stock_left, per_user_limit, begin_at, end_at,
                             pay_within_s, requires_ticket, pow_bits)
        values (p_voucher, p_title, p_description, p_price_cents, p_face_value_cents, p_stock,
                p_stock, p_per_user_limit, p_begin_at, p_end_at, p_pay_within_s,
                p_requires_ticket, p_pow_bits)
        returning *
    ), event as (
        insert into stock_event (voucher_id, id, at, actor, stock_change)
        select v.id, next_event_id(v.id), v.created_at, p_actor, v.stock_total from created v
    )
    select * from created;
    perform pg_notify('seckill_voucher', p_voucher::text);
end
$$;

revoke execute on function create_voucher from public;
