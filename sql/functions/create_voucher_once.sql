-- Call create_voucher() for a request with the key p_key (NULL: no key), which creates p_count
-- vouchers. If the request is repeated, returns the present state of the voucher that the first
-- request created. Raises unique_violation of used_key_pkey if the key belongs to another request.
drop function if exists create_voucher_once(text, bigint, text, text, bigint, bigint, bigint, bigint,
    timestamptz, timestamptz, bigint, text, boolean, bigint); -- without p_count
drop function if exists create_voucher_once(text, bigint, text, text, bigint, bigint, bigint, bigint,
    timestamptz, timestamptz, bigint, text, boolean, bigint, bigint); -- without p_is_lottery

create or replace function create_voucher_once(p_key text, p_voucher bigint, p_title text,
    p_description text, p_price_cents bigint, p_face_value_cents bigint, p_stock bigint,
    p_per_user_limit bigint, p_begin_at timestamptz, p_end_at timestamptz, p_pay_within_s bigint,
    p_actor text, p_requires_ticket boolean, p_pow_bits bigint, p_count bigint default 1,
    p_is_lottery boolean default false)
returns setof voucher
language plpgsql security definer set search_path from current
as $$
declare
    v_use record;
begin
    if p_key is not null then
        select * into v_use
        from use_key(0, p_actor, p_key,
                     md5(row(p_title, p_description, p_price_cents, p_face_value_cents, p_stock,
                             p_per_user_limit, unix_us(p_begin_at), unix_us(p_end_at),
                             p_pay_within_s, p_requires_ticket, p_pow_bits)::text
                         || coalesce(nullif(p_count, 1)::text, '')
                         || case when p_is_lottery then 'lottery' else '' end),
                     p_voucher);
        perform refuse_other_request(v_use.is_same);
        if not v_use.is_new then
            return query select * from voucher v where v.id = v_use.made_id;
            return;
        end if;
    end if;
    return query
    select * from create_voucher(p_voucher, p_title, p_description, p_price_cents,
        p_face_value_cents, p_stock, p_per_user_limit, p_begin_at, p_end_at, p_pay_within_s,
        p_actor, p_requires_ticket, p_pow_bits, p_is_lottery);
end
$$;

revoke execute on function create_voucher_once from public;
