-- Change fields of a voucher. A parameter that is NULL leaves its field unchanged. Returns no row
-- if there is no such voucher.
create or replace function patch_voucher(p_voucher bigint, p_title text, p_description text,
    p_begin_at timestamptz, p_end_at timestamptz, p_pay_within_s bigint,
    p_requires_ticket boolean default null, p_pow_bits bigint default null)
returns setof voucher
language plpgsql security definer set search_path from current
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

revoke execute on function patch_voucher from public;
