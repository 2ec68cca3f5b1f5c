-- Erase a shopper, see erase_shoppers(). Called by the owner. Also erases the orders in all
-- archives of this schema: archive_vouchers() makes their tables with the types of this schema.
--
-- Leaves out the vouchers that this cell has given to another cell: the other cell erases their
-- orders, and delete_moved() deletes the rows in this cell.
--
-- Refused, with the reason in `refusal`, if the shopper has an unpaid order, an entry in a lottery
-- that is not drawn, or an order of a sale that has not ended, because the limit of that sale would
-- not count the erased orders.
create or replace function erase_user(p_user bigint,
    out refusal text, out orders bigint, out events bigint, out keys bigint)
language plpgsql
set search_path from current
as $$
declare
    v_path text := current_setting('search_path');
    v_schema text;
    v_vouchers bigint[];
begin
    orders := 0;
    events := 0;
    keys := 0;
    if exists (select from cell where number < 0) then
        refusal := 'this database is an aggregate: erase the shopper in each of its cells';
        return;
    end if;
    for v_schema in
        select c.relnamespace::regnamespace
        from pg_attribute a
        join pg_class c on c.oid = a.attrelid
        where a.atttypid = 'positive_id'::regtype
        group by c.relnamespace
        order by c.relnamespace <> current_schema::regnamespace
    loop
        perform set_config('search_path', v_schema || ', ' || v_path, true);
        v_vouchers := array(
            select distinct o.voucher_id from voucher_order o
            where segment_of(o.voucher_id) = any (array(select distinct segment_of(v.id) from voucher v))
              and o.user_id = p_user
              and not exists (select from moved_voucher m where m.id = o.voucher_id)
            union
            select l.voucher_id from lottery l
            cross join lateral (
                select from lottery_entry e
                where e.voucher_id = l.voucher_id and e.rank = lottery_rank(l.seed, p_user)
                order by e.rank limit 1) e
            where not exists (select from moved_voucher m where m.id = l.voucher_id));
        perform from voucher v where v.id = any (v_vouchers) order by v.id for no key update;
        select case when v.end_at > clock_timestamp()
                    then format('the sale of voucher %s has not ended', v.id)
                    else format('order %s of voucher %s is unpaid', o.id, v.id) end
        into refusal
        from voucher v
        join voucher_order o on o.voucher_id = v.id and o.user_id = p_user
        where v.id = any (v_vouchers)
          and (v.end_at > clock_timestamp() or o.status = 'unpaid')
        order by o.id limit 1;
        if found then
            return;
        end if;
        select format('the lottery of voucher %s is not drawn', l.voucher_id) into refusal
        from lottery l where l.voucher_id = any (v_vouchers) and l.draw_at is not null
        order by l.voucher_id limit 1;
        if found then
            return;
        end if;
        select erase_user.orders + coalesce(sum(e.orders), 0),
               erase_user.events + coalesce(sum(e.events), 0),
               erase_user.keys + coalesce(sum(e.keys), 0)
        into orders, events, keys
        from unnest(v_vouchers) v (id), erase_shoppers(v.id, array[p_user]) e;
    end loop;
end
$$;

revoke execute on function erase_user from public;
