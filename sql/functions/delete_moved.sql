-- Delete up to p_limit orders, and as many events and entries in a lottery, of a voucher that this
-- cell gave to another cell. The rows are kept for two minutes, because a request that lost its
-- connection may still look up its order. Returns how many rows were deleted. Returns 0 if no row may
-- be deleted now.
--
-- Refused until the split has ended. Until then the other database repeats each deletion in this
-- database, so it would lose the rows.
create or replace function delete_moved(p_limit bigint) returns bigint
language plpgsql
as $$
declare
    v_id bigint;
    v_deleted bigint;
begin
    if exists (select from pg_publication where pubname ~ '^seckill_half_') then
        raise exception 'the split has not ended: call seckill cells split again';
    end if;
    select m.id into v_id from moved_voucher m
    where m.moved_at < clock_timestamp() - interval '2 min' order by m.id limit 1;
    if not found then
        return 0;
    end if;
    with orders as (
        delete from voucher_order o where o.voucher_id = v_id and o.id in (
            select l.id from voucher_order l where l.voucher_id = v_id order by l.id limit p_limit)
        returning o.payment_ref
    ), events as (
        delete from order_event e where e.voucher_id = v_id and e.id in (
            select l.id from order_event l where l.voucher_id = v_id order by l.id limit p_limit)
        returning 1
    ), entries as (
        delete from lottery_entry e where e.voucher_id = v_id and e.rank in (
            select l.rank from lottery_entry l where l.voucher_id = v_id
            order by l.rank limit p_limit)
        returning 1
    ), payments as (
        delete from payment p using orders o where p.payment_ref = o.payment_ref
    )
    select (select count(*) from orders) + (select count(*) from events)
           + (select count(*) from entries) into v_deleted;
    if v_deleted = 0 then
        delete from stock_event where voucher_id = v_id;
        delete from lottery where voucher_id = v_id;
        delete from used_key where voucher_id = v_id or (voucher_id = 0 and made_id = v_id);
        delete from moved_voucher where id = v_id;
        v_deleted := 1;
    end if;
    return v_deleted;
end
$$;
