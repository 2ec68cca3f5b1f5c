-- Move all vouchers below an id to another schema, see move_to_archive(). Returns the number of
-- vouchers. Fails if one of the vouchers is on sale, is a lottery that is not drawn, or has an
-- unpaid order.
create or replace function archive_vouchers(p_before bigint, p_schema text) returns bigint
language plpgsql
as $$
declare
    v_vouchers bigint[];
    v_active bigint;
begin
    v_vouchers := array(
        select v.id from voucher v where v.id < p_before order by v.id for update);
    select v.id into v_active from voucher v where v.id < p_before and v.end_at > now()
    union all
    select o.voucher_id from voucher_order o
    where o.voucher_id < p_before and o.status = 'unpaid'
    union all
    select l.voucher_id from lottery l where l.voucher_id < p_before and l.draw_at is not null
    limit 1;
    if found then
        raise exception 'voucher % is on sale or has an unpaid order', v_active;
    end if;
    perform move_to_archive(v_vouchers, p_schema);
    return cardinality(v_vouchers);
end
$$;

revoke execute on function archive_vouchers from public;
