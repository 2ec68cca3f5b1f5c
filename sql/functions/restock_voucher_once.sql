-- Call restock_voucher() for a request with the key p_key (NULL: no key). If the request is
-- repeated, returns the present state of the voucher. Raises unique_violation of used_key_pkey if
-- the key belongs to another request.
create or replace function restock_voucher_once(p_key text, p_voucher bigint, p_add bigint,
    p_actor text)
returns setof voucher
language plpgsql security definer set search_path from current
as $$
declare
    v_use record;
begin
    if p_key is not null then
        perform from voucher v where v.id = p_voucher for no key update;
        if not found then
            return;
        end if;
        select * into v_use
        from use_key(p_voucher, p_actor, p_key, md5(row('restock', p_add)::text), null);
        perform refuse_other_request(v_use.is_same);
        if not v_use.is_new then
            return query select * from voucher v where v.id = p_voucher;
            return;
        end if;
    end if;
    return query select * from restock_voucher(p_voucher, p_add, p_actor);
end
$$;

revoke execute on function restock_voucher_once from public;
