-- Change fields of a voucher. A parameter that is NULL leaves its field unchanged. Returns no row
-- if there is no such voucher. The history gets an event with the fields that differ: a JSON object
-- from each name to an array of the old and the new value.
drop function if exists patch_voucher(bigint, text, text, timestamptz, timestamptz, bigint, boolean, bigint);
create or replace function patch_voucher(p_voucher bigint, p_title text, p_description text,
    p_begin_at timestamptz, p_end_at timestamptz, p_pay_within_s bigint,
    p_requires_ticket boolean default null, p_pow_bits bigint default null,
    p_actor text default 'admin')
returns setof voucher
language plpgsql security definer set timezone = 'UTC' set search_path from current
as $$
declare
    v_old voucher;
    v_new voucher;
begin
    select * into v_old from voucher v where v.id = p_voucher for no key update;
    if not found then
        return;
    end if;
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
    returning * into v_new;
    insert into stock_event (voucher_id, id, at, actor, stock_change, detail)
    select p_voucher, next_event_id(p_voucher), clock_timestamp(), p_actor, 0,
           jsonb_object_agg(key, jsonb_build_array(o.value, n.value))
    from jsonb_each(to_jsonb(v_old)) o join jsonb_each(to_jsonb(v_new)) n using (key)
    where n.value <> o.value and key <> 'version'
    having count(*) > 0;
    update lottery l set draw_at = v_new.end_at
    where l.voucher_id = p_voucher and v_new.seed is null;
    perform pg_notify('seckill_voucher', p_voucher::text);
    return next v_new;
end
$$;

revoke execute on function patch_voucher from public;
