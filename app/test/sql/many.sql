-- many.sql - place_many() decides each batch as place_orders() does. The verdicts are explained in
-- given.sql.

-- test_place_many__places_all_and_takes_the_stock
select new_voucher(10, 1), new_voucher(10, 1);
create temp table placed as
select * from place_many('{101,102}', '{1,3}', '{2,5}', '{1,2,1,2,3}', '{11,12,13,0,15}',
                         '{a,null,b,null,null}');
select verdicts, details, price, expiry - decided_at, new_stock, new_version, opens = begin_at,
       closes = end_at, (stock_left, version) = (new_stock, new_version)
from placed join voucher on id = 100 + batch order by batch;
--> {1,1}||100|00:15:00|8|2|t|t|t
--> {1,1,1}||100|00:15:00|7|2|t|t|t
select voucher_id, user_id, fence, request_key, slot,
       due_to_id = order_ids[cardinality(order_ids)], follows,
       (created_at, expires_at) = (decided_at, expiry)
from placed, unnest(order_ids) with ordinality i (id, pos) join voucher_order o using (id)
order by batch, pos;
--> 101|1|11|a|1|t||t
--> 101|2|12||1||t|t
--> 102|1|13|b|1|t||t
--> 102|2|||1||t|t
--> 102|3|15||1||t|t

-- test_place_many__leaves_out_held_and_missing_vouchers
select new_voucher(10, 1), new_voucher(10, 1), new_voucher(10, 1);
b: begin;
b: select from voucher where id = 102 for update;
select batch, verdicts from place_many('{101,102,103,9000000}', '{1,2,3,4}', '{1,2,3,4}',
                                       '{1,2,3,4}', '{5,5,5,5}', null);
--> 1|{1}
--> 3|{1}
b: rollback;
select batch, verdicts from place_many('{101,102,103,9000000}', '{1,2,3,4}', '{1,2,3,4}',
                                       '{1,2,3,4}', '{5,5,5,5}', null);
--> 2|{1}
--> 1|{3}
--> 3|{3}

-- test_place_many__places_only_with_a_ticket
select new_voucher(10, 1), new_voucher(10, 1);
update voucher set requires_ticket = id = 101;
select batch, verdicts from place_many('{101,102}', '{1,3}', '{2,4}', '{1,2,1,2}', '{1,1,1,1}',
                                       null, '{f,t,f,f}') order by batch;
--> 1|{9,1}
--> 2|{1,1}

-- test_place_many__a_refused_batch_does_not_change_the_others
select new_voucher(0, 1), new_voucher(5, 1), new_voucher(5, 1), new_voucher(5, 2);
select place(104, '{7}', '{1}', '{k}');
update voucher set end_at = clock_timestamp() where id = 102;
select batch, verdicts
from place_many('{101,102,103,104}', '{1,2,3,4}', '{1,2,3,4}', '{6,6,6,7}', '{5,5,5,5}',
                '{null,null,null,k}') order by batch;
--> 1|{4}
--> 2|{6}
--> 3|{1}
--> 4|{2}

-- The advisory lock of a voucher is the lower 31 bits of the voucher's id. The id of an order
-- contains only the lower 20 bits.
-- test_place_many__locks_each_voucher
select setval('voucher_id_seq', 2147483648 + 5);
select new_voucher(5, 1), new_voucher(5, 1);
begin;
select batch, verdicts from place_many('{2147483655,2147483654}', '{1,2}', '{1,2}', '{1,1}',
                                       '{5,5}', null) order by batch;
--> 1|{1}
--> 2|{1}
select classid, objid from pg_locks
where locktype = 'advisory' and objsubid = 2 and pid = pg_backend_pid() order by objid;
--> 5265717|6
--> 5265717|7
commit;
select voucher_id % 65536, id % 1048576 from voucher_order order by 1;
--> 6|6
--> 7|7

-- The number of entries in the index of deadlines shows who has placed a batch of 15 new shoppers:
-- place_many() makes one entry for the whole batch, and place_orders() makes one per order, because
-- the batch has fewer than 16. A batch stays plain although there are orders of shopper 99 and an
-- order of shopper 1 for another voucher.
-- test_place_many__places_plain_batches_together
create function pg_temp.entries(p_stock integer, p_is_guarded boolean, p_tickets integer,
    p_begin interval, out entries bigint, out orders bigint) language plpgsql as $$
declare
    v_voucher bigint := new_voucher(p_stock + 1, 1);
begin
    perform place(v_voucher, '{99}');
    update voucher set requires_ticket = p_is_guarded, begin_at = now() + p_begin
    where id = v_voucher;
    perform place_many(array[v_voucher], '{1}', '{15}', array(select generate_series(1, 15)),
                       array_fill(0::bigint, '{15}'), null,
                       array(select i <= p_tickets from generate_series(1, 15) i));
    select count(due_to_id), count(*) into entries, orders from voucher_order
    where voucher_id = v_voucher and user_id < 99;
end $$;
select new_voucher(99, 1);
select place(101, '{1}');
select * from pg_temp.entries(15, false, 0, '-1 min');
--> 1|15
select * from pg_temp.entries(14, false, 15, '-1 min');
--> 14|14
select * from pg_temp.entries(99, true, 15, '-1 min');
--> 1|15
select * from pg_temp.entries(99, true, 14, '-1 min');
--> 14|14
select * from pg_temp.entries(99, false, 15, '1 min');
--> 0|0

-- If a shopper is in the batch twice or has ordered before, place_many() leaves the batch to
-- place_orders().
-- test_place_many__finds_shoppers_that_are_not_new
select new_voucher(99, 1);
select verdicts from place_many('{101}', '{1}', '{4}', '{1,2,3,3}', '{0,0,0,0}', null);
--> {1,1,1,3}
select verdicts from place_many('{101}', '{1}', '{4}', '{3,4,5,6}', '{0,0,0,0}', null);
--> {3,1,1,1}

-- Random batches have new shoppers, repeated keys, old fences and little stock. place_many() sells
-- vouchers 101 to 106, and place_orders() sells vouchers 107 to 112. The verdicts must be equal.
-- test_place_many__decides_as_place_orders_does
create function pg_temp.differences() returns setof text language plpgsql as $$
declare
    v_vouchers bigint[]; v_firsts bigint[]; v_lasts bigint[];
    v_users bigint[]; v_fences bigint[]; v_keys text[];
    v_together text; v_alone text;
begin
    perform setseed(0.5);
    for round in 1 .. 150 loop
        select array_agg(100 + n), array_agg(1 + before), array_agg(before + size)
        into v_vouchers, v_firsts, v_lasts
        from (select n, size, sum(size) over (order by n) - size as before
              from (select n, 1 + (random() * 3)::integer as size from generate_series(1, 6) n
                    where random() < 0.7 or n = 1 offset 0) batch) batches;
        select array_agg(1 + (random() * 8)::bigint),
               array_agg((random() < 0.8)::integer * (round * 3 + (random() * 8)::bigint)),
               array_agg(case when random() < 0.5 then 'k' || (random() * 19)::integer end)
        into v_users, v_fences, v_keys from generate_series(1, v_lasts[cardinality(v_lasts)]);
        select string_agg(concat_ws(' ', verdicts, new_stock, new_version), ', ' order by batch)
        into v_together
        from place_many(v_vouchers, v_firsts, v_lasts, v_users, v_fences, v_keys);
        select string_agg(concat_ws(' ', verdicts, new_stock, new_version), ', ' order by n)
        into v_alone
        from unnest(v_vouchers, v_firsts, v_lasts) with ordinality b (voucher, first, last, n),
             place_orders(voucher + 6, v_users[first:last], v_fences[first:last],
                          v_keys[first:last]);
        if v_together <> v_alone then
            return next format('round %s: %s, alone: %s', round, v_together, v_alone);
        end if;
    end loop;
end $$;
select new_voucher(n % 6 * 40, 1 + n % 3) from generate_series(0, 11) n;
select * from pg_temp.differences();
--> (none)
select count(*) > 60, count(*) filter (where slot > 1 and fence is null) > 10,
       count(request_key) > 50
from voucher_order where voucher_id <= 106;
--> t|t|t
select voucher_id, user_id, slot, fence, request_key,
       row_number() over (partition by voucher_id order by id)
from voucher_order where voucher_id <= 106
except select voucher_id - 6, user_id, slot, fence, request_key,
       row_number() over (partition by voucher_id order by id)
from voucher_order;
--> (none)
