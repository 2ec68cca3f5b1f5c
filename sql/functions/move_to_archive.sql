-- Move vouchers, with their orders and their history, to tables of the same names in another
-- schema, and create these tables if they are missing. The caller holds the locks of the vouchers'
-- rows.
--
-- The payments of these orders stay in this schema, so that no payment can pay another order.
--
-- Refused during a split, because the other cell would repeat the deletions.
create or replace function move_to_archive(p_vouchers bigint[], p_schema text) returns void
language plpgsql
as $$
declare
    v_table text;
    v_column text;
begin
    if p_schema = current_schema then
        raise exception 'an archive needs another schema than %', p_schema;
    elsif exists (select from pg_publication where pubname ~ '^seckill_half_') then
        raise exception 'the split of this cell has not ended: call seckill cells split again';
    end if;
    update payment p set is_archived = true
    from voucher_order o
    where o.voucher_id = any (p_vouchers) and p.payment_ref = o.payment_ref;

    foreach v_table in array array['stock_event', 'order_event', 'voucher_order', 'lottery_entry',
                                   'lottery', 'voucher'] loop
        execute format('create table if not exists %I.%I (like %2$I)', p_schema, v_table);
        for v_column in -- of a newer release than the archive
            select format('%I %s', attname, format_type(atttypid, atttypmod)) from pg_attribute
            where attrelid = v_table::regclass and attnum > 0 and not attisdropped
              and attname not in (select attname from pg_attribute
                                  where attrelid = format('%I.%I', p_schema, v_table)::regclass
                                    and not attisdropped)
            order by attnum
        loop
            execute format('alter table %I.%I add column %s', p_schema, v_table, v_column);
        end loop;
        execute format('with moved as (delete from %1$I where %2$I = any ($1) returning *)'
                       ' insert into %3$I.%1$I table moved',
                       v_table, case v_table when 'voucher' then 'id' else 'voucher_id' end,
                       p_schema)
        using p_vouchers;
    end loop;
end
$$;
