-- Move all vouchers below an id, with their orders and their history, to tables of the same names
-- in another schema. Creates the tables that do not exist there. Returns the number of vouchers.
-- Fails if one of the vouchers is on sale or has an unpaid order.
--
-- The payments of these orders stay in this schema, so that no payment can pay another order.
create or replace function archive_vouchers(p_before bigint, p_schema text) returns bigint
language plpgsql
as $$
declare
    v_active bigint;
    v_table text;
    v_moved bigint;
begin
    perform from voucher v where v.id < p_before order by v.id for update;
    select v.id into v_active from voucher v where v.id < p_before and v.end_at > now()
    union all
    select o.voucher_id from voucher_order o
    where o.voucher_id < p_before and o.status = 'unpaid'
    limit 1;
    if found then
        raise exception 'voucher % is on sale or has an unpaid order', v_active;
    end if;

    update payment p set is_archived = true
    from voucher_order o
    where o.voucher_id < p_before and p.payment_ref = o.payment_ref;

    foreach v_table in array array['stock_event', 'order_event', 'voucher_order', 'voucher'] loop
        execute format('create table if not exists %I.%I (like %2$I)', p_schema, v_table);
        if v_table = 'voucher_order' and not exists (
                select from pg_attribute
                where attrelid = format('%I.%I', p_schema, v_table)::regclass and attname = 'follows') then
            execute format('alter table %I.%I add column follows boolean', p_schema, v_table);
        end if;
        execute format('with moved as (delete from %1$I where %2$I < $1 returning *)'
                       ' insert into %3$I.%1$I table moved',
                       v_table, case v_table when 'voucher' then 'id' else 'voucher_id' end,
                       p_schema)
        using p_before;
        get diagnostics v_moved = row_count;
    end loop;
    return v_moved;
end
$$;

revoke execute on function archive_vouchers from public;
