-- Create a voucher. The domains and CHECKs of the table validate the fields. A lottery gets a seed of
-- 244 random bits.
drop function if exists create_voucher(bigint, text, text, bigint, bigint, bigint, bigint, timestamptz,
    timestamptz, bigint, text, boolean, bigint); -- without p_is_lottery

create or replace function create_voucher(p_voucher bigint, p_title text, p_description text,
    p_price_cents bigint, p_face_value_cents bigint, p_stock bigint, p_per_user_limit bigint,
    p_begin_at timestamptz, p_end_at timestamptz, p_pay_within_s bigint,
    p_actor text default 'admin', p_requires_ticket boolean default false,
    p_pow_bits bigint default 0, p_is_lottery boolean default false)
returns setof voucher
language plpgsql security definer set search_path from current
as $$
declare
    v_seed bytea := uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());
begin
    if p_is_lottery then
        insert into lottery (voucher_id, seed, draw_at) values (p_voucher, v_seed, p_end_at);
    end if;
    return query
    with created as (
        insert into voucher (id, title, description, price_cents, face_value_cents,
                             stock_total, stock_left, per_user_limit, begin_at, end_at,
                             pay_within_s, requires_ticket, pow_bits, commitment)
        values (p_voucher, p_title, p_description, p_price_cents, p_face_value_cents, p_stock,
                p_stock, p_per_user_limit, p_begin_at, p_end_at, p_pay_within_s,
                p_requires_ticket, p_pow_bits, case when p_is_lottery then sha256(v_seed) end)
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
