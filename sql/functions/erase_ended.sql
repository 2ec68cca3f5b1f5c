-- Erase all shoppers of the next voucher whose sale ended at least p_days ago, see
-- erase_shoppers(), and move the voucher to the schema p_schema, see move_to_archive(). To be
-- called by the owner until `voucher` is NULL. A voucher with an unpaid order, or a lottery
-- that is not drawn, is left out.
create or replace function erase_ended(p_days integer, p_schema text,
    out voucher bigint, out orders bigint, out events bigint, out keys bigint)
language plpgsql
as $$
begin
    if exists (select from cell where number < 0) then
        raise exception 'this database is an aggregate: erase the shoppers in each of its cells';
    end if;
    select v.id into voucher
    from voucher v
    where v.end_at <= clock_timestamp() - make_interval(days => p_days)
      and not exists (select from voucher_order o
                      where o.voucher_id = v.id and o.status = 'unpaid')
      and not exists (select from lottery l where l.voucher_id = v.id and l.draw_at is not null)
    order by v.id limit 1
    for update;
    if found then
        select e.* into orders, events, keys
        from erase_shoppers(voucher, array(
            select distinct o.user_id from voucher_order o where o.voucher_id = voucher
            union
            select e.user_id from lottery_entry e where e.voucher_id = voucher)) e;
        perform move_to_archive(array[voucher], p_schema);
    end if;
end
$$;

revoke execute on function erase_ended from public;
