-- place.sql - place_orders(): each verdict, alone and with others. The verdicts are explained in
-- given.sql.

-- test_place_orders__places_only_with_a_ticket
select new_voucher(3, 1), new_voucher(3, 1), new_voucher(1, 1);
update voucher set requires_ticket = id <> 102;
select placed(101, '{1,2}', null, '{a,b}', '{f,f}');
--> 9 9 / - -
select placed(101, '{1,2,3}', null, '{a,b,c}', '{f,t,f}');
--> 9 1 9 / - 2 -
-- The positions count the requests of the whole batch, also the requests that lack a ticket.
select placed(101, '{1,3,2,4}', null, '{a,c,b,d}', '{f,t,t,f}');
--> 9 1 2 9 / - 3 2 - / 3
select placed(101, '{1,5,2}', null, '{a,e,b}', '{t,t,f}');
--> 1 4 9 / 1 - -
select stock_left from voucher where id = 101;
--> 0
select place(102, '{1,2}', null, '{a,b}', '{f,t}');
--> 1 1
-- An older release of the service calls the function without the parameter of tickets.
select verdicts from place_orders(103, '{1}', '{0}', null);
--> {1}

-- test_place_orders__returns_the_voucher_to_all_without_a_ticket
select new_voucher(3, 1);
update voucher set requires_ticket = true;
select order_ids, details, price, new_stock, new_version, opens < closes, decided_at < expiry
from place_orders(101, '{1}', '{1}', null, '{f}');
--> {NULL}||100|3|1|t|t

-- If some requests of a batch lack a ticket, the other requests get the answer of a batch without
-- these requests. But the positions count all requests of the batch.
-- test_place_orders__decides_tickets_by_a_batch_of_their_own
select new_voucher(9, 1), new_voucher(9, 1);
select place(id, '{1,2}', '{0,0}', '{a,b}') from voucher;
update voucher set requires_ticket = id = 101;
create temp table answers as
select 1 as at, * from place_orders(101, '{9,1,8,2,3,4}', '{1,2,3,4,5,6}', '{x,a,y,b,c,d}',
                                    '{f,t,f,t,t,f}')
union all select 2, * from place_orders(102, '{1,2,3}', '{2,4,5}', '{a,b,c}');
select verdicts, array_positions(order_ids, null) from answers where at = 1;
--> {9,2,9,2,1,9}|{1,3,6}
select o.user_id, o.fence, o.request_key from answers, voucher_order o
where at = 1 and id = order_ids[5];
--> 3|5|c
-- The details have six numbers for each repeated request. The test leaves out the times, because
-- the vouchers were created at different times.
select details[1:2], details[6:8], details[12], cardinality(details) from answers where at = 1;
--> {2,100}|{0,4,100}|0|12
select price, expiry - decided_at, new_stock, new_version, opens < decided_at, closes > decided_at
from answers order by at;
--> 100|00:15:00|6|3|t|t
--> 100|00:15:00|6|3|t|t

-- test_place_orders__places_all_in_request_order
select new_voucher(10, 1);
select place(101, '{3,1,2}');
--> 1 1 1
select stock_left, version from voucher;
--> 7|2
select user_id from voucher_order order by id;
--> 3
--> 1
--> 2

-- test_place_orders__returns_the_stored_rows
select new_voucher(10, 1);
select verdicts, details, price, expiry - decided_at, new_stock, new_version, opens < now(),
       closes > now()
from place_orders(101, '{7}', '{5}', '{k}');
--> {1}||100|00:15:00|9|2|t|t
select user_id, fence, request_key, slot, status, price_cents, paid_at, expires_at - created_at,
       id % 1048576
from voucher_order;
--> 7|5|k|1|unpaid|100||00:15:00|101

-- A large batch of new shoppers has one entry in the index of deadlines. The view counts the
-- batches of each size.
-- test_place_orders__new_shoppers_share_a_deadline
create function pg_temp.place_16(p_voucher bigint, p_first bigint, p_last bigint, p_keys text[])
returns text language sql as $$
    select place(p_voucher, array(select generate_series(p_first, p_first + 14)) || p_last, null,
                 p_keys)
$$;
create view pg_temp.entries as
select size, count(*)
from (select (select count(*) from voucher_order o
              where o.voucher_id = 101 and o.id between b.id and b.due_to_id) as size
      from voucher_order b where b.voucher_id = 101 and b.due_to_id is not null) each
group by size order by size;
select new_voucher(1000, 2), new_voucher(1000, 2), new_voucher(14, 1);
select pg_temp.place_16(101, 1, 100, null);
select pg_temp.place_16(101, 201, 300, array(select 'k' || n from generate_series(1, 16) n));
select * from pg_temp.entries;
--> 16|2
select count(*), count(request_key), min(request_key), max(request_key) from voucher_order
where user_id between 201 and 300 and slot = 1 and fence is null and status = 'unpaid'
  and price_cents = 100 and expires_at = created_at + interval '900 s';
--> 16|16|k1|k9
select pg_temp.place_16(101, 401, 100, null);
select * from pg_temp.entries;
--> 1|16
--> 16|2
select pg_temp.place_16(101, 601, 601, null);
select * from pg_temp.entries;
--> 1|32
--> 16|2
select pg_temp.place_16(102, 801, 900, null), pg_temp.place_16(101, 801, 900, null);
select place(101, '{901,902}');
select * from pg_temp.entries;
--> 1|34
--> 16|3
select pg_temp.place_16(103, 1, 100, null);
--> 1 1 1 1 1 1 1 1 1 1 1 1 1 1 4 4
select stock_left, count(due_to_id), max(due_to_id) = max(o.id)
from voucher v join voucher_order o on o.voucher_id = v.id where v.id = 103 group by stock_left;
--> 0|1|t

-- test_place_orders__sells_exactly_the_stock
select new_voucher(3, 1);
select place(101, '{1,2,3,4,5}');
--> 1 1 1 4 4
select place(101, '{6}');
--> 4
select stock_left from voucher;
--> 0

-- test_place_orders__conflicts_use_up_no_stock
select new_voucher(5, 1);
select place(101, '{1,3}');
--> 1 1
select version from voucher;
--> 2
select place(101, '{1,3}');
--> 3 3
select version from voucher;
--> 2
select place(101, '{1,2,3,4,1,5,6}');
--> 3 1 3 1 3 1 4
select stock_left, version from voucher;
--> 0|3

-- The id of an order has only the lower 20 bits of the voucher's id.
-- test_place_orders__ids_follow_the_requests
select setval('voucher_id_seq', 3 * 1048576 + 5);
select new_voucher(100, 1), new_voucher(100, 1);
select place(3145734, '{5,4,3,2}', '{0,7,0,7}');
select place(3145735, '{9}');
select place(3145734, '{8}');
select user_id, id % 1048576 from voucher_order order by id;
--> 5|6
--> 4|6
--> 3|6
--> 2|6
--> 9|7
--> 8|6

-- test_place_orders__no_voucher
select verdicts, order_ids, details, price, new_stock
from place_orders(999999999, '{1,2}', '{0,5}', '{a,NULL}');
--> {8,8}|{NULL,NULL}|||

-- test_place_orders__same_shopper_in_one_batch
select new_voucher(10, 1), new_voucher(10, 2), new_voucher(2, 3);
select place(101, '{1,1,2,1}');
--> 1 3 1 3
select place(102, '{1,1,2,1}');
--> 1 1 1 3
select place(102, '{1,2,2}');
--> 3 1 3
select place(103, '{1,1,1,1}');
--> 1 1 4 4

-- test_place_orders__already_ordered_names_a_live_order
select new_voucher(10, 1);
select place(101, '{1}'), cancel(101, 1), place(101, '{1}');
select verdicts, order_ids[1] = order_of(101, 1) from place_orders(101, '{1}', '{0}', null);
--> {3}|t

-- test_place_orders__fills_the_lowest_free_slot
select new_voucher(10, 3);
select place(101, '{1,1,1,1}');
--> 1 1 1 3
select free_slot(101, 1, 2), place(101, '{1,1}');
--> 1|1 3
select slot from voucher_order order by id;
--> 1
--> 
--> 3
--> 2

-- place_orders() handles a batch in one of three ways: while there is stock, after it has run out,
-- and after the sale has ended. Each must return the earlier orders.
-- test_place_orders__names_the_earlier_orders
select new_voucher(4, 1), new_voucher(2, 2);
select placed(101, '{1,2,3}', null, '{a,b,c}');
--> 1 1 1 / 1 2 3
select placed(101, '{2,4,5,1,3,3}', null, '{b,d,e,x,c,y}');
--> 2 1 4 3 2 3 / 2 4 - 1 3 3 / 1 5
select placed(101, '{9,2,1}', null, '{z,b,a}');
--> 4 2 2 / - 2 1 / 2 3
update voucher set end_at = clock_timestamp() where id = 101;
select placed(101, '{9,2,1}', null, '{z,b,q}');
--> 6 2 3 / - 2 1 / 2
select place(102, '{1,1}', null, '{a,NULL}');
--> 1 1
select place(102, '{1,1,2,2}', null, '{a,b,NULL,c}');
--> 2 3 4 4

-- test_place_orders__before_and_after_the_sale
select new_voucher(10, 1);
select place(101, '{1}', null, '{a}');
--> 1
update voucher set begin_at = clock_timestamp() + interval '30 min';
select place(101, '{1,1,2}', null, '{a,NULL,NULL}');
--> 2 3 5
update voucher set begin_at = clock_timestamp() - interval '1 h', end_at = clock_timestamp();
select place(101, '{1,1,2}', null, '{a,NULL,NULL}');
--> 2 3 6
select stock_left from voucher;
--> 9

-- test_place_orders__checks_the_window_under_the_lock
select new_voucher(10, 1);
begin;
select from voucher for update;
b: select place(101, '{1}');
--> waits
update voucher set end_at = clock_timestamp();
commit;
b:
--> 6

-- test_place_orders__key_repeats_in_every_state
select new_voucher(3, 1);
select place(101, '{1,1,2,1}', null, '{a,a,a,b}');
--> 1 2 1 3
select cancel(101, 1), place(101, '{1}', null, '{a}');
--> 1|2
select place(101, '{1,1}', null, '{a,c}');
--> 2 1
select place(101, '{3,4,1}', null, '{x,y,a}');
--> 1 4 2

-- test_place_orders__key_returns_the_current_order
select new_voucher(5, 1);
select place(101, '{8,9}', null, '{x,y}'), pay(101, 9);
select verdicts, order_ids[2:3] = array[order_of(101, 8), order_of(101, 9)], cardinality(details),
       details[1], details[7:8], details[12],
       details[9:11] = (select array[unix_us(created_at), unix_us(expires_at), unix_us(paid_at)]
                        from voucher_order where user_id = 9)
from place_orders(101, '{7,8,9}', '{0,0,0}', '{z,x,y}');
--> {1,2,2}|t|12|2|{3,100}|1|t

-- test_place_orders__everything_mixed
select new_voucher(6, 2);
select place(101, '{1,1,2}', null, '{a,b,c}');
--> 1 1 1
select place(101, '{1,1,2,3,3,3,4,2,1}', null, '{a,x,d,e,e,f,g,c,y}');
--> 2 3 1 1 2 1 4 2 3
select stock_left from voucher;
--> 0

-- test_place_orders__fence_must_grow
select new_voucher(10, 4);
select place(101, '{1}', '{10}'), place(101, '{1}', '{10}'), place(101, '{1}', '{9}'),
       place(101, '{1}', '{11}');
--> 1|7|7|1
-- Fence 0 means an order without a lock. The fence of one shopper does not count for another
-- shopper.
select place(101, '{1}', '{0}'), place(101, '{1}', '{11}'), place(101, '{2}', '{1}');
--> 1|7|1
select stock_left from voucher;
--> 6

-- In voucher 102, slot 1 is free again. Fence 15 is stale (verdict 7): it is above the fence 10 of
-- the ended order, but below the fence 20 of the live order in slot 2.
-- test_place_orders__fence_of_an_ended_order_counts
select new_voucher(10, 1), new_voucher(10, 2);
select place(101, '{1}', '{50}'), cancel(101, 1), place(101, '{1}', '{50}'),
       place(101, '{1,2}', '{49,40}'),
       place(101, '{1}', '{51}');
--> 1|1|7|7 1|1
select place(102, '{1}', '{10}'), place(102, '{1}', '{20}'), free_slot(102, 1, 1),
       place(102, '{1}', '{15}'),
       place(102, '{1}', '{21}'), place(102, '{2}', '{15}');
--> 1|1|1|7|1|1

-- Two orders of shopper 1 have ended, with the fences 50 and 60. Fences from 50 to 60 are stale.
-- test_place_orders__newest_of_the_ended_orders_counts
select new_voucher(10, 1);
select place(101, '{1}', '{50}'), cancel(101, 1), place(101, '{1}', '{60}'), cancel(101, 1),
       place(101, '{1}', '{55}'), place(101, '{1}', '{60}'), place(101, '{1}', '{61}');
--> 1|1|1|1|7|7|1

-- Shopper 1 has an ended order of voucher 101 only. Voucher 102 has an ended order of shopper 2
-- only. Neither fence counts for shopper 1 and voucher 102.
-- test_place_orders__fence_of_an_ended_order_of_another_voucher_does_not_count
select new_voucher(10, 1), new_voucher(10, 1);
select place(101, '{1}', '{50}'), cancel(101, 1), place(102, '{2}', '{60}'), cancel(102, 2),
       place(102, '{1}', '{30}');
--> 1|1|1|1|1

-- test_place_orders__other_refusals_come_before_the_fence
select new_voucher(2, 1);
select place(101, '{1}', '{10}', '{a}'), place(101, '{1,1}', '{10,5}', '{a,b}'), cancel(101, 1),
       place(101, '{2,3,1}', '{20,21,5}');
--> 1|2 3|1|1 1 4

-- test_place_orders__a_bad_row_leaves_nothing
select new_voucher(10, 1);
select place(101, '{1,-2}');
--> ERROR 23514: value for domain positive_id violates check constraint "positive_id_check"
select place(101, '{1,null}');
--> ERROR 23502: null value in column "user_id" ...
select place(101, '{1,2}', '{0,-7}');
--> ERROR 23514: value for domain fencing_token violates check constraint "fencing_token_check"
select place(101, '{1,2}', null, array['x', '']);
--> ERROR 23514: value for domain request_key violates check constraint "request_key_check"
select place(101, '{1,2}', null, array['x', repeat('k', 81)]);
--> ERROR 23514: value for domain request_key violates check constraint "request_key_check"
select stock_left from voucher;
--> 10

-- -- look-ups --

-- Shopper 1 has ended orders with the key "a" in voucher 101, and with the key "d" in voucher 102.
-- test_resolve_orders__finds_the_order_of_a_fence_or_a_key
select new_voucher(9, 2), new_voucher(9, 2);
select place(101, '{1,1,2,3}', '{5,6,5,0}', '{a,b,e,k}'), free_slot(101, 1, 1),
       place(101, '{1}', '{8}', '{c}'), place(102, '{1}', '{9}', '{d}'), free_slot(102, 1, 1),
       place(102, '{1}', '{10}', '{f}');
--> 1 1 1 1|1|1|1|1|1
select string_agg(verdict || coalesce(request_key, ''), ' ' order by pos)
from resolve_orders(101, '{1,1,1,1,2,2,1,1,3,3,3,1,1,2,1}',
                    '{6,8,5,7,5,6,9,10,0,0,0,0,7,0,0}',
                    '{NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,k,NULL,x,a,a,a,d}')
left join voucher_order on id = order_id;
--> 1b 1c 1a 0 1e 0 0 0 1k 0 0 1a 0 0 0

-- Without an index each of these calls would read all orders, which have 1,050 pages. The planner may
-- read up to 100 pages to find out which ids exist.
-- test_functions__find_the_orders_of_a_shopper_by_an_index
select new_voucher(99999, 2), place(101, array(select generate_series(1::bigint, 60000)));
select call, pages_read('select ' || call) < 500
from unnest(array['place(101, ''{1}'', ''{9}'')',
                  'place(101, array(select generate_series(70001::bigint, 70016)))',
                  'place_many(''{101}'', ''{1}'', ''{1}'', ''{80001}'', ''{9}'', null)',
                  'resolve_orders(101, ''{7}'', ''{8}'', ''{x}'')',
                  'cancel_order(101, 1008::bigint << 20 | 101, ''x'')']) call;
--> place(101, '{1}', '{9}')|t
--> place(101, array(select generate_series(70001::bigint, 70016)))|t
--> place_many('{101}', '{1}', '{1}', '{80001}', '{9}', null)|t
--> resolve_orders(101, '{7}', '{8}', '{x}')|t
--> cancel_order(101, 1008::bigint << 20 | 101, 'x')|t
