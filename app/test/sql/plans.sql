-- plans.sql - all queries of the service read few pages when the tables are large.
--
-- A session with the settings of the service plans the queries while the tables are empty, and does
-- not plan them again. This is the worst case for a plan. Then each table gets 200,000 rows. A scan
-- of the smallest index would read 500 pages, and a scan of a table would read thousands.

-- test_queries__read_few_pages_of_large_tables
alter table voucher set (autovacuum_enabled = off, fillfactor = 100);
alter table voucher_order set (autovacuum_enabled = off);
alter table order_event set (autovacuum_enabled = off);
alter table stock_event set (autovacuum_enabled = off);
alter table payment set (autovacuum_enabled = off);
analyze voucher, voucher_order, payment, order_event, stock_event;
create temp table question (query text, arguments text, most bigint default 50);
insert into question values
    ('read_order', '100000 * 1048576::bigint + 1, 0'),
    ('list_orders', '0, 9223372036854775807, 21, null, ''-infinity'', ''infinity'', 777'),
    ('list_orders', '0, 9223372036854775807, 21, null, ''-infinity'', ''infinity'', 200500'),
    ('search_order', '0, 9223372036854775807, 2, null, ''-infinity'', ''infinity'', 0, '
                     '100000 * 1048576::bigint + 1, null'),
    ('search_order', '0, 9223372036854775807, 2, null, ''-infinity'', ''infinity'', 0, null, ''100000'''),
    ('read_voucher', '100000'),
    ('read_vouchers', '''{1,100000,199999,7777777}'''),
    ('list_any', '9223372036854775807, 21'),
    ('list_any', '100000, 21'),
    ('list_upcoming', '''-infinity'', -9223372036854775808, 21'),
    ('list_upcoming', 'now() + interval ''80000 min'', 5, 21'),
    ('list_open', '''-infinity'', -9223372036854775808, 21'),
    ('list_open', 'now() + interval ''300 min'', 5, 21'),
    ('list_ended', '''infinity'', 9223372036854775807, 21'),
    ('list_ended', 'now() - interval ''80000 min'', 5, 21'),
    ('voucher_events', '1, 0, 21'),
    ('voucher_events', '1, 240000 * 1048576::bigint, 21'),
    ('voucher_events', '1, 9000000 * 1048576::bigint, 21'),
    ('stock_events', '1, 0, 21'),
    ('stock_events', '1, 500000 * 1048576::bigint, 21'),
    ('order_events', '1, 0, 21, 100000 * 1048576::bigint + 1'),
    ('feed_events', '9000000, 9000000, 9000000, 21'),
    ('due_batches', '500, ''{}''');
-- Behind each order, the query reads up to 10 rows, to see which orders belong to its batch.
insert into question values
    ('feed_events', '0, 0, 9000000, 21', 150),
    ('feed_events', '150000, 150000, 9000000, 21', 150),
    ('feed_events', '350000, 350000, 9000000, 21', 50),
    ('feed_events', '450000, 450000, 9000000, 21', 50);
-- The query begins after the last open voucher, and reads half of the index voucher_end_begin (see
-- sql/migrations).
insert into question values ('list_open', 'now() + interval ''501 min'', 5, 21', 1000);
-- The query reads 126 orders to find the first and the last order of a time. The last of these
-- lists also reads 10,000 of the 200,000 orders.
insert into question values
    ('list_voucher_orders', '1, 9223372036854775807, 21, null, ''-infinity'', ''infinity''', 600),
    ('list_voucher_orders', '1, 9223372036854775807, 21, ''unpaid'', ''2020-01-01'', ''infinity''', 600),
    ('list_voucher_orders', '1, 9223372036854775807, 21, ''refunded'', ''-infinity'', ''infinity''', 1000);
create function pg_temp.answer(p_query text, p_arguments text, out pages bigint,
                               out has_scan boolean) language plpgsql as $$
declare
    v_line text;
begin
    pages := pages_read(format('execute %s(%s)', p_query, p_arguments));
    has_scan := false;
    for v_line in execute format('explain (costs off) execute %s(%s)', p_query, p_arguments) loop
        has_scan := has_scan or v_line ~ 'Seq Scan';
    end loop;
end $$;
select prepare('session');
execute session('0', '0', '0');
select prepare(query) from (select distinct query from question) q;
select pg_temp.answer(query, arguments) from question;
-- Vouchers 1 to 500 are open, and voucher 1 has all orders and events. Half of the other vouchers
-- are upcoming, and end later than the open vouchers. The other half have ended. Shopper 200500
-- also has an order for each of 100 other vouchers.
insert into voucher (id, price_cents, face_value_cents, stock_total, stock_left, per_user_limit,
                     pay_within_s, title, begin_at, end_at)
select n, 1, 1, 0, 0, 1, 60, 'voucher',
       now() + case when n <= 500 then -1 when n % 2 = 0 then n else -2 * n end * interval '1 min',
       now() + case when n <= 500 then n when n % 2 = 0 then 2 * n else -n end * interval '1 min'
from generate_series(1, 200000) n;
insert into voucher_order (voucher_id, id, user_id, price_cents, created_at, expires_at, slot,
                           due_to_id)
select 1, n * 1048576::bigint + 1, n, 1, now(), now() + n * interval '1 us', 1,
       n * 1048576::bigint + 1
from generate_series(1, 200000) n;
insert into voucher_order (voucher_id, id, user_id, price_cents, created_at, expires_at, slot)
select n, n * 1048576::bigint + n, 200500, 1, now(), now() + interval '1 h', 1
from generate_series(1001, 1100) n;
insert into order_event (voucher_id, id, order_id, at, actor, from_status, to_status)
select 1, (n + 200000) * 1048576::bigint + 1, n * 1048576::bigint + 1, now(), 'x', 'unpaid', 'paid'
from generate_series(1, 200000) n;
insert into stock_event (voucher_id, id, at, actor, stock_change)
select 1, (n + 400000) * 1048576::bigint + 1, now(), 'x', 0 from generate_series(1, 200000) n;
insert into payment (payment_ref, order_id)
select n, n * 1048576::bigint + 1 from generate_series(1, 200000) n;
select * from question, pg_temp.answer(query, arguments)
where pages not between 1 and most or has_scan;
--> (none)
-- begin_test() deletes the rows, which no audit would accept.
select begin_test();

-- test_use_key__reads_few_pages_of_a_large_table
select prepare('session');
execute session('0', '0', '0');
select new_voucher(0, 1);
select restock_voucher_once('planned', 101, 1, 'admin:1');
insert into used_key (voucher_id, actor, key, request, at)
select 101, 'admin:' || n, 'k', 'x', now() - n * interval '1 min' from generate_series(1, 200000) n;
select pages_read($$select restock_voucher_once('new', 101, 1, 'admin:1')$$) between 1 and 100,
       pages_read($$select restock_voucher_once('new', 101, 1, 'admin:1')$$) between 1 and 50;
--> t|t
select count(*) from used_key;
--> 200000

-- Shopper 7 has an order for the first voucher of some segments. A block is 64 segments. If a block
-- has a voucher, a list looks into all its segments. A look-up reads three pages. 134217727 is the
-- last segment. next_voucher_id() would not create vouchers in the segments 33569 and 134217727 so
-- early.
-- test_list_orders__looks_into_each_segment_once
create function pg_temp.fill_segment(p_segment bigint, p_number bigint) returns void
language sql as $$
    insert into voucher (id, price_cents, face_value_cents, stock_total, stock_left,
                         per_user_limit, pay_within_s, title, begin_at, end_at)
    values (p_segment << 16, 1, 1, 1, 0, 1, 60, 'voucher', now(), now() + interval '1 h');
    insert into voucher_order (voucher_id, id, user_id, price_cents, created_at, expires_at, slot,
                               due_to_id)
    select p_segment << 16, id, 7, 1, now(), now() + interval '1 h', 1, id
    from (select p_number << 20 | (p_segment << 16 & 1048575) as id) number;
    insert into stock_event (voucher_id, id, at, actor, stock_change)
    select p_segment << 16, (p_segment << 16 & 1048575) | (1 << 20), now(), 'x', 1;
$$;
select prepare('session');
execute session('0', '0', '0');
select prepare('list_orders'), prepare('read_order');
select pg_temp.fill_segment(1, 7), pg_temp.fill_segment(4, 900001),
       pg_temp.fill_segment(400, 900003), pg_temp.fill_segment(800, 900002);
execute list_orders(0, 9223372036854775807, 21, null, '-infinity', 'infinity', 7);
--> ...|26214400|7|{...}
--> ...|52428800|7|{...}
--> ...|262144|7|{...}
--> ...|65536|7|{...}
execute list_orders(0, 900003::bigint << 20, 2, null, '-infinity', 'infinity', 7);
--> ...|52428800|7|{...}
--> ...|262144|7|{...}
execute list_orders(26214400, 9223372036854775807, 21, null, '-infinity', 'infinity', 7);
--> ...|26214400|7|{...}
execute list_orders(401 << 16, 9223372036854775807, 21, null, '-infinity', 'infinity', 7);
--> (none)
create temp table pages as
select pages_read($$execute list_orders(0, 9223372036854775807, 21, null, '-infinity', 'infinity', 7)$$) as before;
select before between 1 and 3 * 64 * 3 + 50 from pages;
--> t
select pg_temp.fill_segment(33569, 900010), pg_temp.fill_segment(134217727, 900011);
select pages_read($$execute list_orders(0, 9223372036854775807, 21, null, '-infinity', 'infinity', 7)$$)
       between before and before + 2 * (64 * 4 + 50) from pages;
--> t
execute read_order(900010::bigint << 20 | (33569 << 16 & 1048575), 7);
--> ...|2199977984|7|{...}
select pages_read('execute read_order(900010::bigint << 20 | (33569 << 16 & 1048575), 7)')
       between 1 and 50;
--> t
execute read_order(900011::bigint << 20 | (134217727::bigint << 16 & 1048575), 7);
--> ...|8796092956672|7|{...}

-- The session planned the calls while the tables were empty.
-- test_lottery__reads_few_pages_of_large_tables
select prepare('session'), prepare('read_entries');
execute session('0', '0', '0');
select new_lottery(100), place(101, '{1,2}'), close(101), draw(1), draw(1);
select (select count(*) from read_entry(101, 1)), ids('read_entries(101, '''', 1)') is null;
--> 1|t
insert into lottery (voucher_id, seed, draw_at)
select n, sha256('x'), now() + interval '1 h' from generate_series(200, 200000) n;
insert into lottery_entry (voucher_id, user_id, rank)
select 101 + n % 2, n, substr(sha256(seed || int8send(n)), 1, 16) from voucher, generate_series(3, 200000) n where id = 101;
select pages_read($$select * from read_entry(101, 100000)$$) between 1 and 50,
       pages_read($$execute read_entries(101, '80', 21)$$) between 1 and 150,
       pages_read($$select place(101, '{777}')$$) between 1 and 50;
--> t|t|t
select new_lottery(100);
update lottery_entry set voucher_id = 102 where voucher_id = 101;
select place(102, '{1,2,3}'), close(102);
select pages_read($$select draw_lotteries(2)$$) between 1 and 100,
       pages_read($$select draw_lotteries(2)$$) between 1 and 100;
--> t|t
-- No audit would accept these rows.
select begin_test();
