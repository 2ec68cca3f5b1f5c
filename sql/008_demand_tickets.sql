-- Tickets against bots: whether an order of this voucher must show one, and how many zero bits
-- the proof of work must have that earns it. The service judges both; orders need no more here.

alter table voucher
    add column requires_ticket boolean not null default false,
    add column pow_bits smallint not null default 0
        constraint voucher_pow_bits check (pow_bits between 0 and 32);

-- As in 004 and 003, with the two.

drop function create_voucher;
create function create_voucher(p_voucher bigint, p_title text, p_description text,
    p_price_cents bigint, p_face_value_cents bigint, p_stock bigint, p_per_user_limit bigint,
    p_begin_at timestamptz, p_end_at timestamptz, p_pay_within_s bigint,
    p_actor text default 'admin', p_requires_ticket boolean default false,
    p_pow_bits bigint default 0)
returns setof voucher
language plpgsql
as $$
begin
    return query
    with made as (
        insert into voucher (id, title, description, price_cents, face_value_cents,
                             stock_total, stock_left, per_user_limit, begin_at, end_at,
                             pay_within_s, requires_ticket, pow_bits)
        values (p_voucher, p_title, p_description, p_price_cents, p_face_value_cents, p_stock,
                p_stock, p_per_user_limit, p_begin_at, p_end_at, p_pay_within_s,
                p_requires_ticket, p_pow_bits)
        returning *
    ), told as (
        insert into stock_event (voucher_id, id, at, actor, stock_change)
        select v.id, next_event_id(v.id), v.created_at, p_actor, v.stock_total from made v
    )
    select * from made;
    perform pg_notify('seckill_voucher', p_voucher::text);
end
$$;

-- NULL leaves a field as it is. No row: no such voucher.
drop function patch_voucher;
create function patch_voucher(p_voucher bigint, p_title text, p_description text,
    p_begin_at timestamptz, p_end_at timestamptz, p_pay_within_s bigint,
    p_requires_ticket boolean default null, p_pow_bits bigint default null)
returns setof voucher
language plpgsql
as $$
begin
    return query
    update voucher v
    set title = coalesce(p_title, v.title),
        description = coalesce(p_description, v.description),
        begin_at = coalesce(p_begin_at, v.begin_at),
        end_at = coalesce(p_end_at, v.end_at),
        pay_within_s = coalesce(p_pay_within_s, v.pay_within_s),
        requires_ticket = coalesce(p_requires_ticket, v.requires_ticket),
        pow_bits = coalesce(p_pow_bits, v.pow_bits),
        version = v.version + 1
    where v.id = p_voucher
    returning *;
    if found then
        perform pg_notify('seckill_voucher', p_voucher::text);
    end if;
end
$$;

-- With their owner's rights, as in 007.
do $$
declare
    f regprocedure;
begin
    foreach f in array array(
        select p.oid::regprocedure from pg_proc p
        where p.pronamespace = current_schema::regnamespace
          and p.proname in ('create_voucher', 'patch_voucher'))
    loop
        execute format('alter function %s security definer set search_path = %I, pg_temp',
                       f, current_schema);
        execute format('revoke execute on function %s from public', f);
    end loop;
end
$$;
