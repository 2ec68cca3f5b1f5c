-- keys.sql - the keys of requests that change something.

-- test_use_key__a_repeated_restock_adds_once
select new_voucher(5, 1), new_voucher(5, 1);
select id, stock_left from restock_voucher_once('k', 101, 7, 'admin:1');
--> 101|12
select id, stock_left from restock_voucher_once('k', 101, 7, 'admin:1');
--> 101|12
select restock_voucher_once('k', 101, 8, 'admin:1');
--> ERROR 23505: the key belongs to another request
select stock_left from restock_voucher_once('k', 102, 9, 'admin:1');
--> 14
select stock_left from restock_voucher_once('k', 101, 8, 'admin:2');
--> 20
select stock_left from restock_voucher_once(null, 101, 1, 'admin:1');
--> 21
select stock_left from restock_voucher_once(null, 101, 1, 'admin:1');
--> 22
select restock_voucher_once('no', 101, -23, 'admin:1');
--> ERROR 23514: ...
select stock_left from restock_voucher_once('no', 101, -22, 'admin:1');
--> 0
select restock_voucher_once('k', 103, 1, 'admin:1');
--> (none)
select voucher_id, actor, key, made_id from used_key order by 1, 2, 3;
--> 101|admin:1|k|
--> 101|admin:1|no|
--> 101|admin:2|k|
--> 102|admin:1|k|

-- test_use_key__a_repeated_request_creates_once
create function given.create_once(p_key text, p_limit bigint, p_begin text default '2030-01-01 00:00+00')
returns bigint language sql as $$
    select id from create_voucher_once(p_key, next_voucher_id(), 'title', '', 100, 200, 5, p_limit,
                                       p_begin::timestamptz, '2031-01-01 00:00+00', 900, 'admin:1', false, 0)
$$;
select create_once('k', 1), create_once('k', 1), create_once(null, 1), create_once('l', 1);
--> 101|101|103|104
set timezone = 'Asia/Shanghai';
select create_once('k', 1, '2030-01-01 08:00+08');
--> 101
reset timezone;
select create_once('k', 2);
--> ERROR 23505: the key belongs to another request
select create_once('k', 1, '2030-01-02');
--> ERROR 23505: ...
select create_once('bad', 1, '2032-01-01');
--> ERROR 23514: new row for relation "voucher" violates check constraint "voucher_window"
select create_once('bad', 1);
--> 109
select count(*) from voucher;
--> 4

-- test_use_key__a_repeated_request_creates_several_once
select prepare('create_vouchers');
create view given.created as select id, title, price_cents, face_value_cents, stock_left, per_user_limit, begin_at,
    end_at, pay_within_s, requires_ticket, pow_bits, commitment is null from voucher order by id;
execute create_vouchers('{a,b}', '{"",d}', '{1,2}', '{3,4}', '{5,6}', '{7,8}', '{2030-01-01 00:00+00,2030-01-02 00:00+00}',
    '{2031-01-01 00:00+00,2031-01-02 00:00+00}', '{9,10}', 'admin:1', '{0,1}', '{11,12}', 'k', '{0,1}');
--> 101|1|a|...
--> 102|1|b|...
set timezone = 'UTC';
select * from created;
--> 101|a|1|3|5|7|2030-01-01 00:00:00+00|2031-01-01 00:00:00+00|9|f|11|t
--> 102|b|2|4|6|8|2030-01-02 00:00:00+00|2031-01-02 00:00:00+00|10|t|12|f
execute create_vouchers('{a,b}', '{"",d}', '{1,2}', '{3,4}', '{5,6}', '{7,8}', '{2030-01-01 00:00+00,2030-01-02 00:00+00}',
    '{2031-01-01 00:00+00,2031-01-02 00:00+00}', '{9,10}', 'admin:1', '{0,1}', '{11,12}', 'k', '{0,1}');
--> 101|1|a|...
--> 102|1|b|...
execute create_vouchers('{a,c}', '{"",d}', '{1,2}', '{3,4}', '{5,6}', '{7,8}', '{2030-01-01 00:00+00,2030-01-02 00:00+00}',
    '{2031-01-01 00:00+00,2031-01-02 00:00+00}', '{9,10}', 'admin:1', '{0,1}', '{11,12}', 'k', '{0,1}');
--> ERROR 23505: the key belongs to another request
execute create_vouchers('{a}', '{""}', '{1}', '{3}', '{5}', '{7}', '{2030-01-01 00:00+00}', '{2031-01-01 00:00+00}', '{9}',
    'admin:1', '{0}', '{11}', 'k', '{0}');
--> ERROR 23505: the key belongs to another request
execute create_vouchers('{a,b,b}', '{"",d,d}', '{1,2,2}', '{3,4,4}', '{5,6,6}', '{7,8,8}',
    '{2030-01-01 00:00+00,2030-01-02 00:00+00,2030-01-02 00:00+00}', '{2031-01-01 00:00+00,2031-01-02 00:00+00,2031-01-02 00:00+00}',
    '{9,10,10}', 'admin:1', '{0,1,1}', '{11,12,12}', 'k', '{0,1,1}');
--> ERROR 23505: the key belongs to another request
execute create_vouchers('{a,b}', '{"",d}', '{1,2}', '{3,4}', '{5,6}', '{7,8}', '{2030-01-01 00:00+00,2030-01-02 00:00+00}',
    '{2031-01-01 00:00+00,2030-01-02 00:00+00}', '{9,10}', 'admin:1', '{0,1}', '{11,12}', null, '{0,1}');
--> ERROR 23514: ...
select count(*) from voucher;
--> 2
truncate voucher, voucher_order, payment, order_event, stock_event cascade;
execute create_vouchers('{a,b}', '{"",d}', '{1,2}', '{3,4}', '{5,6}', '{7,8}', '{2030-01-01 00:00+00,2030-01-02 00:00+00}',
    '{2031-01-01 00:00+00,2031-01-02 00:00+00}', '{9,10}', 'admin:1', '{0,1}', '{11,12}', 'k', '{0,1}');
--> |||||||||||||||||20...
--> |||||||||||||||||20...

-- test_use_key__a_repeated_change_of_an_order_is_done_once
create function given.change(p_change text, p_user bigint, p_key text, p_ref text default null,
    p_cents bigint default null) returns text language sql as $$
    select concat_ws(' ', verdict, (changed).status)
    from change_order(p_change, 101, order_of(101, p_user), 'admin:1', p_key, p_ref, p_cents)
$$;
select new_voucher(5, 1), place(101, '{1,2}');
select change('redeem', 1, 'k'), change('pay', 1, 'p', 'ref', 99), change('pay', 1, 'p', 'ref', 100),
       change('pay', 1, 'p', 'ref', 100);
--> 3 unpaid|4 unpaid|1 paid|2 paid
-- Key "p" belongs to the payment. A repetition with key "q" is recognised by its payment_ref. From
-- then on "q" belongs to the payment, too.
select change('pay', 1, 'q', 'ref', 100), change('pay', 1, 'q', 'ref', 99);
--> 2 paid|7 paid
select change('refund', 1, 'k'), change('refund', 1, 'k'), change('refund', 1, 'l'),
       change('refund', 1, null);
--> 1 refunded|2 refunded|3 refunded|3 refunded
-- The order was refunded, so the same payment without a key is refused. With its key, it is a
-- repetition.
select change('pay', 1, 'p', 'ref', 100), change('pay', 1, null, 'ref', 100);
--> 2 refunded|3 refunded
select change('cancel', 2, 'k'), change('pay', 1, 'p', 'ref', 99), change('pay', 1, 'p', 'no', 100);
--> 7 unpaid|7 refunded|7 refunded
select change('cancel', 2, 'c'), change('cancel', 2, 'c'), change('cancel', 3, 'c');
--> 1 cancelled|2 cancelled|5
select stock_left from voucher;
--> 5
-- A request that fails gives back its key. The keys of other vouchers and actors stay.
select new_voucher(5, 1);
select restock_voucher_once('x', 102, 1, 'admin:1'), restock_voucher_once('x', 101, 1, 'admin:2');
select change('redeem', 2, 'x');
--> 3 cancelled
select voucher_id, actor, key from used_key where key in ('c', 'x') order by 1, 2, 3;
--> 101|admin:1|c
--> 101|admin:2|x
--> 102|admin:1|x

-- test_use_key__the_second_session_waits_for_the_first
select new_voucher(5, 1);
begin;
select stock_left from restock_voucher_once('k', 101, 7, 'admin:1');
--> 12
b: select stock_left from restock_voucher_once('k', 101, 7, 'admin:1');
--> waits
commit;
b:
--> 12
create function given.create_once() returns bigint language sql as $$
    select id from create_voucher_once('k', nextval('voucher_id_seq'), 'title', '', 100, 200, 5, 1,
                                       '2030-01-01', '2031-01-01', 900, 'admin:1', false, 0)
$$;
begin;
select create_once();
--> 102
b: select create_once();
--> waits
commit;
b:
--> 102
begin;
select restock_voucher_once('l', 101, 7, 'admin:1');
b: select stock_left from restock_voucher_once('l', 101, 7, 'admin:1');
--> waits
rollback;
b:
--> 19

-- test_use_key__sessions_with_the_same_keys
create function given.restock_once() returns void language sql as $$
    select from restock_voucher_once('k' || nextval('call_number') / 4, 101, 1, 'admin:1')
$$;
select new_voucher(0, 1);
4x60: select restock_once();
select stock_left, count(*) from voucher, used_key group by 1;
--> 60|60

-- Each new key deletes up to two keys that are older than 7 days.
-- test_use_key__deletes_old_keys
select new_voucher(0, 1);
select restock_voucher_once('k' || n, 101, 1, 'admin:1') from generate_series(1, 5) n;
update used_key set at = now() - interval '7 days 1 min' where key < 'k4';
update used_key set at = now() - interval '6 days 23 h' where key = 'k4';
select restock_voucher_once('k4', 101, 1, 'admin:1');
select count(*) from used_key;
--> 5
select restock_voucher_once('l1', 101, 1, 'admin:1');
select count(*) from used_key;
--> 4
select restock_voucher_once('l2', 101, 1, 'admin:1');
select key from used_key order by 1;
--> k4
--> k5
--> l1
--> l2
update used_key set at = now() - interval '8 days' where key = 'k4';
b: begin;
b: select from used_key where key = 'k4' for update;
--> 
select restock_voucher_once('l3', 101, 1, 'admin:1');
select count(*) from used_key;
--> 5
b: rollback;
