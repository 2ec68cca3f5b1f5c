-- lists.sql - lists of orders: filters and pages.

-- test_list_voucher_orders__filters_by_status_and_time
-- The order with number N of voucher 3 is placed at second N. Order 7 is an exception: the clock
-- was set back before, so the order is placed at second 4.5. The order of voucher 4 is placed an
-- hour earlier.
select prepare('list_voucher_orders');
create function given.list_3(p_before bigint, p_limit bigint, p_status text default null,
    p_from text default null, p_until text default null) returns text language sql as $$
    select ids(format('list_voucher_orders(3, %s, %s, %L, %L, %L)', p_before << 20 | 3, p_limit, p_status,
                      coalesce('2030-01-01 00:00:' || p_from, '-infinity'),
                      coalesce('2030-01-01 00:00:' || p_until, 'infinity')), 20)
$$;
begin;
insert into voucher_order (voucher_id, id, user_id, price_cents, created_at, expires_at, slot, status)
select voucher, number << 20 | voucher, number, 1,
       '2030-01-01'::timestamptz + case when number = 7 then 4.5 else number end * interval '1 s'
           - (voucher - 3) * interval '1 h',
       '2031-01-01', 1, (case when number % 3 = 0 then 'paid' else 'unpaid' end)::order_status
from generate_series(1, 9::bigint) number, unnest('{3,4}'::bigint[]) voucher;
select list_3(99, 20), list_3(99, 2), list_3(4, 20);
--> 9 8 7 6 5 4 3 2 1|9 8|3 2 1
select list_3(99, 20, 'paid'), list_3(9, 1, 'paid'), list_3(99, 20, 'redeemed');
--> 9 6 3|6|
select list_3(99, 20, null, '08'), list_3(99, 20, null, '08.000001'), list_3(99, 20, null, '10');
--> 9 8|9|
select list_3(99, 20, null, null, '03'), list_3(99, 20, null, null, '03.000001'), list_3(99, 20, null, '02', '04');
--> 2 1|3 2 1|3 2
select list_3(99, 20, 'unpaid', '02', '05');
--> 4 2
-- The clock shows some times twice. Near these times a list may lack orders, but has no order of
-- another time.
update voucher_order set created_at = '2030-01-01 00:00:05.5' where id >> 20 = 2;
select list_3(99, 20, null, '04.4'), list_3(99, 20, null, '04.6'), list_3(99, 20, null, null, '04.4'),
       list_3(99, 20, null, null, '05.5');
--> 9 8 7 6 5|9 8 6 5|4 3 1|5 4 3 1
select first_order_since(3, '-infinity') >> 20, first_order_since(3, '2030-01-01 00:00:09') >> 20,
       first_order_since(3, '2030-01-01 00:00:09.1') >> 20, first_order_since(5, '-infinity');
--> 0|8|9|0
rollback;

-- A list reads at most 10,000 orders. The last order that was read is then in the list, so that the
-- next page begins there.
-- test_list_voucher_orders__reads_a_limited_number_of_orders
select prepare('list_voucher_orders');
begin;
insert into voucher_order (voucher_id, id, user_id, price_cents, created_at, expires_at, slot, status)
select 3, number << 20 | 3, number, 1, '2030-01-01', '2031-01-01', 1,
       (case when number in (2, 10002) then 'redeemed' else 'paid' end)::order_status
from generate_series(1, 10002::bigint) number;
create function given.redeemed(p_before bigint, p_limit bigint, p_from text default '-infinity')
returns text language sql as $$
    select ids(format('list_voucher_orders(3, %s, %s, ''redeemed'', %L, ''infinity'')',
                      p_before << 20 | 3, p_limit, p_from), 20)
$$;
select redeemed(10003, 2), redeemed(10003, 1), redeemed(10002, 2), redeemed(10001, 2), redeemed(3, 2),
       redeemed(10003, 2, '2030-01-01 00:00:01');
--> 10002 3|10002|2 2|2 1|2|
execute list_voucher_orders(3, 10003::bigint << 20, 2, 'redeemed', '-infinity', 'infinity');
--> 10487857155|3|10002|{1,...,...,0,2}
--> 3145731|||
rollback;

-- test_search_order__by_its_id_or_its_payment
select prepare('search_order');
create function given.search(p_order bigint, p_ref text, p_voucher bigint default 0,
    p_user bigint default 0, p_status text default null, p_from text default '-infinity',
    p_until text default 'infinity', p_before bigint default 9223372036854775807)
returns text language sql as $$
    select ids(format('search_order(%s, %s, 1, %L, %L, %L, %s, %L, %L)', p_voucher, p_before, p_status,
                      p_from, p_until, p_user, p_order, p_ref))
$$;
begin;
select new_voucher(5, 1), new_voucher(5, 1), place(101, '{5,6}'), place(102, '{6}');
select pay(101, 5, 'ref'), pay(102, 6, 'other'), refund(102, 6);
update voucher_order set created_at = '2030-01-01' where id = order_of(101, 5);
select search(null, 'ref') = order_of(101, 5)::text, search(null, 'other') = order_of(102, 6)::text,
       search(order_of(101, 6), null) = order_of(101, 6)::text, search(order_of(101, 5), 'ref') = order_of(101, 5)::text;
--> t|t|t|t
select search(null, 'none'), search(order_of(101, 6), 'ref'), search(order_of(101, 6), 'other'), search(7, null);
--> |||
select search(null, 'ref', 101, 5, 'paid', '2030-01-01', '2030-01-01 00:00:01') = order_of(101, 5)::text;
--> t
select search(null, 'ref', 102), search(null, 'ref', 0, 6), search(null, 'ref', 0, 0, 'unpaid'),
       search(null, 'ref', 0, 0, null, '2030-01-01 00:00:01'),
       search(null, 'ref', 0, 0, null, '-infinity', '2030-01-01'),
       search(null, 'ref', 0, 0, null, '-infinity', 'infinity', order_of(101, 5));
--> |||||
execute search_order(0, 9223372036854775807, 9, null, '-infinity', 'infinity', 0, null, 'ref');
--> ...|101|5|{100,...,...,...,1}
execute search_order(0, 9223372036854775807, 0, null, '-infinity', 'infinity', 0, null, 'ref');
--> (none)
rollback;
