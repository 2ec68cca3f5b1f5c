-- queries.sql - the queries of the service: which rows they return, and the columns.

-- test_queries__include_the_rows_at_their_bounds
select prepare(query)
from unnest('{list_any,list_upcoming,list_open,list_ended,list_orders,order_events,voucher_events,stock_events,
              read_order,read_voucher,read_vouchers,due_batches}'::text[]) query;
-- In this transaction now() stands still. Vouchers 1 and 2 begin in an hour, 3 begins now, and 5
-- ends now. The last six vouchers are in other segments (of 65,536 ids) and blocks (of 64
-- segments).
begin;
insert into voucher (id, begin_at, end_at, price_cents, face_value_cents, stock_total, stock_left,
                     per_user_limit, pay_within_s, title)
select id, now() + begins * interval '1 h', now() + ends * interval '1 h', 1, 1, 1, 0, 1, 60, 'x'
from (values (1, 1, 2), (2, 1, 2), (3, 0, 1), (4, -1, 1), (5, -1, 0), (6, -2, -1),
             (7, 0.5, 2), (8, -1, 0.5), (1 << 16, -9, -8), (16 << 16 | 3, -9, -8),
             (63 << 16, -9, -8), (1 << 22 | 5, -9, -8), (2 << 22 | 9, -9, -8),
             (3 << 22, -9, -8)) v (id, begins, ends);
select call, ids(call)
from unnest(array['list_any(7, 9)', 'list_any(3, 9)', 'list_any(7, 2)',
                  'list_upcoming(''-infinity'', 0, 9)',
                  'list_upcoming(now() + interval ''1 h'', 1, 9)',
                  'list_open(''-infinity'', 0, 9)', 'list_open(now() + interval ''1 h'', 3, 9)',
                  'list_ended(''infinity'', 9, 2)', 'list_ended(now(), 5, 1)',
                  'list_ended(now() - interval ''8 h'', 63 << 16, 9)',
                  'read_voucher(3)', 'read_voucher(99)', 'read_vouchers(''{3,99}'')']) call;
--> list_any(7, 9)|6 5 4 3 2 1
--> list_any(3, 9)|2 1
--> list_any(7, 2)|6 5
--> list_upcoming('-infinity', 0, 9)|7 1 2
--> list_upcoming(now() + interval '1 h', 1, 9)|2
--> list_open('-infinity', 0, 9)|8 3 4
--> list_open(now() + interval '1 h', 3, 9)|4
--> list_ended('infinity', 9, 2)|5 6
--> list_ended(now(), 5, 1)|6
--> list_ended(now() - interval '8 h', 63 << 16, 9)|1048579 65536
--> read_voucher(3)|3
--> read_voucher(99)|
--> read_vouchers('{3,99}')|3
-- If the orders of shopper 7 are sorted by their numbers, their voucher ids are not sorted. So a
-- query that returns the orders in the sequence of the vouchers fails here. Order N is placed at
-- second N; the orders 11 and 16 are paid.
insert into voucher_order (voucher_id, id, user_id, price_cents, created_at, expires_at, slot, status)
select voucher, number << 20 | (voucher & 1048575), shopper, 1, now() + number * interval '1 s',
       now() + interval '1 h', 1, (case when number in (11, 16) then 'paid' else 'unpaid' end)::order_status
from (values (3::bigint, 10::bigint, 7), (16 << 16 | 3, 11, 7), (1 << 16, 12, 7),
             (1 << 22 | 5, 13, 7), (3 << 22, 14, 7), (4, 15, 7), (2 << 22 | 9, 16, 7),
             (63 << 16, 17, 7), (3, 21, 8)) o (voucher, number, shopper);
insert into order_event (voucher_id, id, order_id, at, actor, from_status, to_status)
select voucher, number << 20 | 3, changed << 20 | 3, now(), 'x', 'unpaid', 'paid'
from (values (3, 30::bigint, 10::bigint), (3, 31, 10), (3, 32, 21), (16 << 16 | 3, 33, 10))
     e (voucher, number, changed);
insert into stock_event (voucher_id, id, at, actor, stock_change)
select voucher, number << 20 | 3, now(), 'x', 0
from (values (3, 22::bigint), (3, 34), (16 << 16 | 3, 35)) e (voucher, number);
select call, ids(call, 20)
from unnest(array['list_orders(0, 99::bigint << 20, 9, null, ''-infinity'', ''infinity'', 7)',
                  'list_orders(0, 99::bigint << 20, 2, null, ''-infinity'', ''infinity'', 7)',
                  'list_orders(0, 13::bigint << 20 | 5, 9, null, ''-infinity'', ''infinity'', 7)',
                  'list_orders(3, 99::bigint << 20, 9, null, ''-infinity'', ''infinity'', 7)',
                  'list_orders(1, 99::bigint << 20, 9, null, ''-infinity'', ''infinity'', 7)',
                  'list_orders(0, 99::bigint << 20, 9, ''paid'', ''-infinity'', ''infinity'', 7)',
                  'list_orders(0, 99::bigint << 20, 9, null, now() + interval ''12 s'', now() + interval ''14 s'', 7)',
                  'read_order(10::bigint << 20 | 3, 0)', 'read_order(11::bigint << 20 | 3, 7)',
                  'read_order(15::bigint << 20 | 4, 0)', 'read_order(11::bigint << 20 | 3, 8)',
                  'order_events(3, 0, 9, 10::bigint << 20 | 3)',
                  'order_events(3, 0, 2, 10::bigint << 20 | 3)',
                  'order_events(3, 10::bigint << 20 | 3, 9, 10::bigint << 20 | 3)',
                  'order_events(4, 0, 9, 10::bigint << 20 | 3)',
                  'voucher_events(3, 0, 9)', 'voucher_events(3, 21::bigint << 20 | 3, 2)',
                  'stock_events(3, 0, 9)', 'stock_events(3, 0, 1)',
                  'stock_events(3, 22::bigint << 20 | 3, 9)']) call;
--> list_orders(0, 99::bigint << 20, 9, null, '-infinity', 'infinity', 7)|17 16 15 14 13 12 11 10
--> list_orders(0, 99::bigint << 20, 2, null, '-infinity', 'infinity', 7)|17 16
--> list_orders(0, 13::bigint << 20 | 5, 9, null, '-infinity', 'infinity', 7)|12 11 10
--> list_orders(3, 99::bigint << 20, 9, null, '-infinity', 'infinity', 7)|10
--> list_orders(1, 99::bigint << 20, 9, null, '-infinity', 'infinity', 7)|
--> list_orders(0, 99::bigint << 20, 9, 'paid', '-infinity', 'infinity', 7)|16 11
--> list_orders(0, 99::bigint << 20, 9, null, now() + interval '12 s', now() + interval '14 s', 7)|13 12
--> read_order(10::bigint << 20 | 3, 0)|10
--> read_order(11::bigint << 20 | 3, 7)|11
--> read_order(15::bigint << 20 | 4, 0)|15
--> read_order(11::bigint << 20 | 3, 8)|
--> order_events(3, 0, 9, 10::bigint << 20 | 3)|10 30 31
--> order_events(3, 0, 2, 10::bigint << 20 | 3)|10 30
--> order_events(3, 10::bigint << 20 | 3, 9, 10::bigint << 20 | 3)|30 31
--> order_events(4, 0, 9, 10::bigint << 20 | 3)|
--> voucher_events(3, 0, 9)|10 21 22 30 31 32 34
--> voucher_events(3, 21::bigint << 20 | 3, 2)|22 30
--> stock_events(3, 0, 9)|22 34
--> stock_events(3, 0, 1)|22
--> stock_events(3, 22::bigint << 20 | 3, 9)|34
update voucher_order o
set due_to_id = case when number <> 12 then id end, expires_at = now() + ends
from (values (10, interval '0'), (21, '-1 h'), (15, '-2 h'), (12, '-3 h'), (13, '1 us'))
     due (number, ends)
where id >> 20 = number;
execute due_batches(9, '{4}');
--> 3|{22020099,10485763}
execute due_batches(9, '{3,9}');
--> 4|{15728644}
execute due_batches(1, '{}');
--> 4|{15728644}
rollback;

-- -- columns --

-- test_queries__of_one_voucher
set timezone = 'UTC';
select prepare(name) from query where folder = 'queries'
       and name ~ '_vouchers?$|^list_(any|upcoming|open|ended)';
b: listen seckill_voucher;
execute create_vouchers('{双十一}', array['a ''quoted'' \ line'], '{1000000000000}', '{1}', '{100000000}', '{100}',
                        '{2030-01-01}', '{2030-01-02}', '{2592000}', 'admin:1', '{1}', '{20}', null, '{0}');
--> 101|1|双十一|a 'quoted' \ line|1000000000000|1|100000000|100000000|100|2592000|2030-01-01 00:00:00+00|2030-01-02 00:00:00+00|1|20||||20...
execute read_voucher(101);
--> 101|1|双十一|a 'quoted' \ line|1000000000000|1|100000000|100000000|100|2592000|2030-01-01 00:00:00+00|2030-01-02 00:00:00+00|1|20||||20...
execute read_vouchers('{7,101}');
--> 101|1|||1000000000000|1|100000000|100000000|100|2592000|2030-01-01 00:00:00+00|2030-01-02 00:00:00+00|1|20||||20...
execute patch_voucher(101, 'new', null, null, '2030-01-03', null, null, null, 'admin:3');
--> 101|2|new|a 'quoted' \ line|1000000000000|1|100000000|100000000|100|2592000|2030-01-01 00:00:00+00|2030-01-03 00:00:00+00|1|20||||20...
execute patch_voucher(101, null, '', '2029-12-31', null, 60, 0, 9, 'admin:4');
--> 101|3|new||1000000000000|1|100000000|100000000|100|60|2029-12-31 00:00:00+00|2030-01-03 00:00:00+00|0|9||||20...
execute patch_voucher(101, null, null, null, null, null, 1, null, 'admin:5');
--> 101|4|new||1000000000000|1|100000000|100000000|100|60|2029-12-31 00:00:00+00|2030-01-03 00:00:00+00|1|9||||20...
execute restock_voucher(101, -1, 'admin:2', null);
--> 101|5|new||1000000000000|1|99999999|99999999|100|60|2029-12-31 00:00:00+00|2030-01-03 00:00:00+00|1|9||||20...
b: select 1;
--> 1
--> notified 101
--> notified 101
--> notified 101
--> notified 101
--> notified 101
-- An edit that changes nothing has no event.
execute patch_voucher(101, 'new', null, null, null, null, null, null, 'admin:6');
--> 101|6|...
select actor, stock_change, detail from stock_event order by id;
--> admin:1|100000000|
--> admin:3|0|{"title": ["双十一", "new"], "end_at": ["2030-01-02T00:00:00+00:00", "2030-01-03T00:00:00+00:00"]}
--> admin:4|0|{"begin_at": ["2030-01-01T00:00:00+00:00", "2029-12-31T00:00:00+00:00"], "pow_bits": [20, 9], "description": ["a 'quoted' \\ line", ""], "pay_within_s": [2592000, 60], "requires_ticket": [true, false]}
--> admin:5|0|{"requires_ticket": [false, true]}
--> admin:2|-1|
execute read_voucher(7);
--> |||||||||||||||||20...
execute read_vouchers('{7}');
--> |||||||||||||||||20...
execute patch_voucher(7, 'new', null, null, null, null, null, null, 'admin:1');
--> |||||||||||||||||20...
execute restock_voucher(7, 1, 'admin:1', null);
--> |||||||||||||||||20...
execute list_any(7, 9);
--> |||||||||||||||||20...
execute list_upcoming('infinity', 7, 9);
--> |||||||||||||||||20...
execute list_open('-infinity', 7, 9);
--> |||||||||||||||||20...
execute list_ended('infinity', 7, 9);
--> |||||||||||||||||20...

-- test_queries__refuse_invalid_vouchers
select prepare(name) from query where folder = 'queries'
       and name ~ '(create|patch|restock)_voucher';
select new_voucher(5, 1);
execute create_vouchers('{x}', '{""}', '{1}', '{1}', '{1}', '{1}', array[now()], array[now()], '{60}', 'x', '{0}', '{0}', null, '{0}');
--> ERROR 23514: new row for relation "voucher" violates check constraint "voucher_window"
execute patch_voucher(101, null, null, null, '2000-01-01', null, null, null, 'admin:1');
--> ERROR 23514: new row for relation "voucher" violates check constraint "voucher_window"
execute create_vouchers('{x}', '{""}', '{1}', '{1}', '{100000001}', '{1}', array[now()], '{infinity}', '{60}', 'x', '{0}', '{0}', null, '{0}');
--> ERROR 23514: ...
execute create_vouchers('{x}', '{""}', '{1}', '{1}', '{9223372036854775807}', '{1}', array[now()], '{infinity}', '{60}', 'x', '{0}', '{0}', null, '{0}');
--> ERROR 22003: ...
execute restock_voucher(101, -6, 'x', null);
--> ERROR 23514: ...
execute restock_voucher(101, 100000000, 'x', null);
--> ERROR 23514: ...
execute restock_voucher(101, 9223372036854775807, 'x', null);
--> ERROR 22003: ...

-- test_queries__of_orders
select prepare('read_order'), prepare('list_orders'), prepare('pay_order'), prepare('cancel_order'),
       prepare('refund_order'), prepare('redeem_order');
select new_voucher(9, 1), place(101, '{5,6,7}'), pay(101, 6);
execute read_order(order_of(101, 5), 5);
--> ...|101|5|{100,...,...,0,0}
execute list_orders(0, 9223372036854775807, 9, null, '-infinity', 'infinity', 6);
--> ...|101|6|{100,...,...,...,1}
execute pay_order(101, array[order_of(101, 5), 7], '{a,b}', '{x,y}', '{100,100}', '{null,k}');
--> 1|1|...|101|5|{100,...,...,...,1}
--> 2|5||||{NULL,NULL,NULL,0,NULL}
execute refund_order(101, array[7, order_of(101, 5)], '{a,b}', '{k,k}');
--> 1|5||||{NULL,NULL,NULL,0,NULL}
--> 2|1|...|101|5|{100,...,...,...,5}
execute redeem_order(101, array[order_of(101, 6)], '{c}', '{null}');
--> 1|1|...|101|6|{100,...,...,...,2}
execute cancel_order(101, array[order_of(101, 7)], '{d}', '{k}');
--> 1|1|...|101|7|{100,...,...,0,3}
select actor, to_status, detail from order_event order by id;
--> payment:1|paid|ref 6
--> a|paid|x
--> b|refunded|
--> c|redeemed|
--> d|cancelled|

-- test_queries__of_events
select new_voucher(9, 1), place(101, '{7,8}'), pay(101, 7), refund(101, 7), cancel(101, 8);
select prepare('voucher_events'), prepare('order_events'), prepare('stock_events');
select restock_voucher(101, 5), patch_voucher(101, 'new', null, null, null, null);
execute stock_events(101, 0, 9);
--> ...|101||...|9|admin|||
--> ...|101||...|5|admin|||
--> ...|101||...|0|admin|||{"title": ["title", "new"]}
execute voucher_events(101, 0, 9);
--> ...|101||...|9|admin|||
--> ...|101|...|...|-1|shopper:7||unpaid|
--> ...|101|...|...|-1|shopper:8||unpaid|
--> ...|101|...|...|0|payment:1|unpaid|paid|ref 7
--> ...|101|...|...|1|admin:1|paid|refunded|
--> ...|101|...|...|1|shopper:1|unpaid|cancelled|
--> ...|101||...|5|admin|||
--> ...|101||...|0|admin|||{"title": ["title", "new"]}
execute order_events(101, 0, 9, order_of(101, 7));
--> ...|101|...|...|-1|shopper:7||unpaid|
--> ...|101|...|...|0|payment:1|unpaid|paid|ref 7
--> ...|101|...|...|1|admin:1|paid|refunded|

-- test_queries__place_and_find
set timezone = 'UTC';
select prepare(name) from query where folder = 'queries' and name ~ '^place|^find|^resolve';
select new_voucher(9, 1), new_voucher(9, 1);
set synchronous_commit = remote_write;
begin;
execute place(101, '{1,2}', '{11,12}', '{a,null}', '{t,f}');
--> {1,1}|{...,...}||100|20...|20...|7|2|20...|20...|1
execute place(101, '{1}', '{13}', '{a}', null);
--> {2}|{...}|{1,100,...,...,0,0}|100|20...|20...|7|2|20...|20...|1
execute place_many('{102,101}', '{1,2}', '{1,2}', '{3,4}', '{1,2}', null, '{t,t}');
--> {1}|{...}||100|20...|20...|8|2|20...|20...|1
--> {1}|{...}||100|20...|20...|6|3|20...|20...|2
show synchronous_commit;
--> remote_write
execute place_early(101, '{5}', '{1}', null, '{t}');
--> {1}|{...}||100|20...|20...|5|4|20...|20...|1
show synchronous_commit;
--> off
commit;
begin;
execute place_many_early('{102,101}', '{1,2}', '{1,2}', '{6,7}', '{1,2}', null, '{t,t}');
--> {1}|{...}||100|20...|20...|7|3|20...|20...|1
--> {1}|{...}||100|20...|20...|4|5|20...|20...|2
show synchronous_commit;
--> off
commit;
show synchronous_commit;
--> remote_write
execute find(101, '{1,1,9}', '{a,null,a}');
--> 1|2|...|{100,...,...,0,0}
--> 2|3|...|
--> 3|0||
execute find(102, '{1}', '{a}');
--> 1|0||
execute resolve(101, '{1,2}', '{11,13}', '{null,null}');
--> 1|1|...|{100,...,...,0,0}
--> 2|0||

-- test_queries__of_expiry
select prepare('expire_batches'), prepare('lead_expiry');
select new_voucher(9, 1), place(101, '{1,2}'), make_due(101, 1);
execute expire_batches(101, array[order_of(101, 1)]);
--> 1|1
execute lead_expiry;
--> 1
b: select pg_try_advisory_lock(5265717970);
--> f

-- The age is that of the oldest cell. The row of an aggregate (number -1) does not count. A clock
-- that is ahead gives the age 0.
-- test_age__is_that_of_the_oldest_cell
select prepare('age');
update cell set number = -1, cells = 2, alive_at = 'infinity';
execute age;
--> 0
insert into cell values (0, 2, now() + interval '1 h');
execute age;
--> 0
insert into cell values (1, 2, now() - interval '1 day');
execute age;
--> 864...
delete from cell where number <> 0;
update cell set alive_at = now() - interval '1 day';
select ids('age') like '864%',
       ceil(extract(epoch from clock_timestamp() - alive_at)) <= ids('age')::bigint
from cell;
--> t|t

-- due_batches writes the time to the row of the cell, at most every few seconds. The transaction
-- that writes the time must not wait for the disk when it commits.
-- test_due_batches__notes_the_time
select prepare('due_batches');
update cell set alive_at = clock_timestamp() + interval '1 h';
begin;
execute due_batches(1, '{}');
show synchronous_commit;
--> on
commit;
select alive_at > clock_timestamp() from cell;
--> t
update cell set alive_at = clock_timestamp() - interval '1 h';
begin;
execute due_batches(1, '{}');
show synchronous_commit;
--> off
commit;
select alive_at between now() - interval '1 min' and clock_timestamp() from cell;
--> t

-- -- sessions --

-- Executes the barrier in a transaction, after another transaction has committed. The earlier
-- commit is already on disk unless p_level is 'off'. The answer has the level of the commit,
-- whether a message was written, and whether the transaction has an id. Other processes may write
-- or flush WAL at the same time, so up to 100 attempts are made.
-- test_barrier__writes_unless_all_is_on_disk
create procedure pg_temp.try_barrier(p_level text, p_statement text, p_wanted text,
                                     inout answer text) language plpgsql as $$
declare
    v_level text;
    v_message pg_lsn;
begin
    for tried in 1 .. 100 loop
        perform set_config('synchronous_commit', p_level, true);
        update cell set alive_at = clock_timestamp();
        commit;
        execute p_statement;
        execute 'execute barrier' into v_level, v_message;
        answer := concat_ws(' ', current_setting('synchronous_commit'),
                            case when v_message is not null then 'message' end,
                            case when pg_current_xact_id_if_assigned() is not null then 'id' end);
        exit when answer = p_wanted;
        rollback;
    end loop;
end $$;
select prepare('barrier');
set synchronous_commit = off;
call pg_temp.try_barrier('local', 'select 1', 'on', null);
--> on
call pg_temp.try_barrier('off', 'select 1', 'on message id', null);
--> on message id
call pg_temp.try_barrier('local', 'set local synchronous_commit = remote_apply', 'remote_apply',
                          null);
--> remote_apply
call pg_temp.try_barrier('off', 'update cell set alive_at = now()', 'on id', null);
--> on id
show synchronous_commit;
--> off

-- The first column is the durability. See it_store.c for the value 3, which needs a standby.
-- test_proof__tells_the_level_of_commits
select prepare('proof');
execute proof;
--> 2|0|...
set synchronous_commit = local;
execute proof;
--> 2|0|...
set synchronous_commit = off;
execute proof;
--> 1|0|...
set default_transaction_read_only = on;
execute proof;
--> 1|1|...

-- test_proof__tells_the_cell
select prepare('proof');
execute proof;
--> 2|0|...|0|1
insert into cell values (-1, 2);
execute proof;
--> 2|0|...|-1|2

-- test_session__sets_what_statements_need
select prepare('session');
set default_transaction_isolation = serializable;
set jit = on;
begin;
alter function place_orders(bigint, bigint[], bigint[], text[], boolean[]) rename to renamed;
execute session('10001', '10002', '10003');
--> ...|20...|1|20...|10001ms|10002ms|10003ms|read committed|force_generic_plan|off|...
rollback;
execute session('10001', '10002', '10003');
--> ...|20...|1|20...|10001ms|10002ms|10003ms|read committed|force_generic_plan|off|...
select string_agg(setting, ' ' order by name) from pg_settings
where name in ('default_transaction_isolation', 'enable_bitmapscan', 'enable_hashjoin',
               'enable_mergejoin', 'enable_seqscan', 'enable_sort', 'idle_session_timeout', 'jit',
               'lock_timeout', 'plan_cache_mode', 'statement_timeout');
--> read committed off off off off off 10003 off 10002 force_generic_plan 10001

-- test_unix_us__counts_microseconds
select unix_us('1970-01-01 00:00:01.000002+00');
--> 1000002

-- Another process may have the same pid later, but not the same start time.
-- test_retire__ends_the_process_that_began_then
select prepare('retire');
b: set application_name = 'lost';
create function pg_temp.retire(p_later bigint, p_other bigint default 0) returns text language sql as $$
    select ids(format('retire(%L, %L)', array[pid + p_other], array[unix_us(backend_start) + p_later]))
    from pg_stat_activity where application_name = 'lost'
$$;
select pg_temp.retire(1), pg_temp.retire(0, 1);
--> 0|0
b: select 1;
--> 1
select pg_temp.retire(0);
--> 1
b: select 1;
--> ERROR 57P01: ...
--> ERROR ...
