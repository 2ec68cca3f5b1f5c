-- Replace the ids of shoppers in the orders of a voucher and in the history of these orders, and
-- delete the request keys of these shoppers, and their entries in a lottery. Returns how many orders,
-- events and keys were changed. The caller holds the lock of the voucher's row.
--
-- Each shopper gets a random number that is stored nowhere else, so the number does not identify
-- the shopper. All orders of the shopper for this voucher get the same number, and the orders of
-- different shoppers get different numbers. So slots, limits and fences stay valid. In hexadecimal
-- the number is a 4 and 15 random digits, which is far above the ids that a login counts up.
create or replace function erase_shoppers(p_voucher bigint, p_users bigint[],
    out orders bigint, out events bigint, out keys bigint)
language plpgsql
as $$
begin
    with shopper as materialized (
        select s.user_id, 'shopper:' || s.user_id as actor,
               ('x4' || right(replace(gen_random_uuid()::text, '-', ''), 15))::bit(64)::bigint as number
        from unnest(p_users) s (user_id)
    ), shopper_order as materialized (
        select o.id, o.request_key, s.number
        from shopper s
        join voucher_order o on segment_of(o.voucher_id) = segment_of(p_voucher)
                            and o.user_id = s.user_id and o.voucher_id = p_voucher
    ), changed as (
        update voucher_order o
        set user_id = s.number, request_key = null
        from shopper_order s
        where o.voucher_id = p_voucher and o.id = s.id
    ), changed_event as (
        update order_event e
        set actor = 'shopper:' || s.number
        from shopper s
        where e.voucher_id = p_voucher and e.actor = s.actor
        returning e.id
    ), deleted_key as (
        delete from used_key k
        using shopper s
        where k.voucher_id = p_voucher and k.actor = s.actor
        returning k.key
    ), deleted_entry as (
        delete from lottery_entry e
        using shopper s, lottery l
        where l.voucher_id = p_voucher and e.voucher_id = p_voucher
          and e.rank = lottery_rank(l.seed, s.user_id)
    )
    select count(*), (select count(*) from changed_event),
           count(s.request_key) + (select count(*) from deleted_key)
    into orders, events, keys
    from shopper_order s;
end
$$;
