-- queries.sql - queries of the service, on rows at the bounds of their conditions.

-- The first column of each row that a prepared query returns; p_shift 20: the numbers of ids of
-- orders and events.
-- test_queries__include_the_rows_at_their_bounds
create function pg_temp.ids(p_call text, p_shift integer default 0) returns text
language plpgsql as $$
declare
    v_row record;
    v_ids text;
begin
    for v_row in execute 'execute ' || p_call loop
        v_ids := concat_ws(' ', v_ids, (select value::bigint >> p_shift
                                        from json_each_text(row_to_json(v_row)) limit 1));
    end loop;
    return v_ids;
end $$;
select prepare(query)
from unnest('{list_any,list_upcoming,list_open,list_ended,list_orders,order_events,voucher_events,
              read_order,read_voucher,read_vouchers,due_batches}'::text[]) query;
-- Now now() stands still: vouchers 1 and 2 begin in an hour, 3 begins now, and 5 ends now. The
-- others are in other segments (of 65,536 ids) and blocks (of 64 segments).
begin;
insert into voucher (id, begin_at, end_at, price_cents, face_value_cents, stock_total, stock_left,
                     per_user_limit, pay_within_s, title)
select id, now() + begins * interval '1 h', now() + ends * interval '1 h', 1, 1, 1, 0, 1, 60, 'x'
from (values (1, 1, 2), (2, 1, 2), (3, 0, 1), (4, -1, 1), (5, -1, 0), (6, -2, -1),
             (1 << 16, -9, -8), (16 << 16 | 3, -9, -8), (63 << 16, -9, -8), (1 << 22 | 5, -9, -8),
             (2 << 22 | 9, -9, -8), (3 << 22, -9, -8)) v (id, begins, ends);
select call, pg_temp.ids(call)
from unnest(array['list_any(7, 9)', 'list_any(3, 9)', 'list_any(7, 2)',
                  'list_upcoming(''-infinity'', 0, 9)',
                  'list_upcoming(now() + interval ''1 h'', 1, 9)',
                  'list_open(''-infinity'', 0, 9)', 'list_open(now() + interval ''1 h'', 3, 9)',
                  'list_ended(''infinity'', 9, 2)', 'list_ended(now(), 5, 1)',
                  'read_voucher(3)', 'read_voucher(99)', 'read_vouchers(''{3,99}'')']) call;
--> list_any(7, 9)|6 5 4 3 2 1
--> list_any(3, 9)|2 1
--> list_any(7, 2)|6 5
--> list_upcoming('-infinity', 0, 9)|1 2
--> list_upcoming(now() + interval '1 h', 1, 9)|2
--> list_open('-infinity', 0, 9)|3 4
--> list_open(now() + interval '1 h', 3, 9)|4
--> list_ended('infinity', 9, 2)|5 6
--> list_ended(now(), 5, 1)|6
--> read_voucher(3)|3
--> read_voucher(99)|
--> read_vouchers('{3,99}')|3
-- The numbers of the orders of shopper 7 grow against the order of the vouchers.
insert into voucher_order (voucher_id, id, user_id, price_cents, created_at, expires_at, slot)
select voucher, number << 20 | (voucher & 1048575), shopper, 1, now(), now() + interval '1 h', 1
from (values (3::bigint, 10::bigint, 7), (16 << 16 | 3, 11, 7), (1 << 16, 12, 7),
             (1 << 22 | 5, 13, 7), (3 << 22, 14, 7), (4, 15, 7), (2 << 22 | 9, 16, 7),
             (63 << 16, 17, 7), (3, 21, 8)) o (voucher, number, shopper);
insert into order_event (voucher_id, id, order_id, at, actor, from_status, to_status)
select voucher, number << 20 | 3, changed << 20 | 3, now(), 'x', 'unpaid', 'paid'
from (values (3, 30::bigint, 10::bigint), (3, 31, 10), (3, 32, 21), (16 << 16 | 3, 33, 10))
     e (voucher, number, changed);
select call, pg_temp.ids(call, 20)
from unnest(array['list_orders(7, 0, 99::bigint << 20, 9)',
                  'list_orders(7, 0, 99::bigint << 20, 2)',
                  'list_orders(7, 0, 13::bigint << 20 | 5, 9)',
                  'list_orders(7, 3, 99::bigint << 20, 9)',
                  'list_orders(7, 1, 99::bigint << 20, 9)',
                  'read_order(10::bigint << 20 | 3, 0)', 'read_order(11::bigint << 20 | 3, 7)',
                  'read_order(15::bigint << 20 | 4, 0)', 'read_order(11::bigint << 20 | 3, 8)',
                  'order_events(3, 0, 9, 10::bigint << 20 | 3)',
                  'order_events(3, 0, 2, 10::bigint << 20 | 3)',
                  'order_events(3, 10::bigint << 20 | 3, 9, 10::bigint << 20 | 3)',
                  'order_events(4, 0, 9, 10::bigint << 20 | 3)',
                  'voucher_events(3, 0, 9)', 'voucher_events(3, 21::bigint << 20 | 3, 2)']) call;
--> list_orders(7, 0, 99::bigint << 20, 9)|17 16 15 14 13 12 11 10
--> list_orders(7, 0, 99::bigint << 20, 2)|17 16
--> list_orders(7, 0, 13::bigint << 20 | 5, 9)|12 11 10
--> list_orders(7, 3, 99::bigint << 20, 9)|10
--> list_orders(7, 1, 99::bigint << 20, 9)|
--> read_order(10::bigint << 20 | 3, 0)|10
--> read_order(11::bigint << 20 | 3, 7)|11
--> read_order(15::bigint << 20 | 4, 0)|15
--> read_order(11::bigint << 20 | 3, 8)|
--> order_events(3, 0, 9, 10::bigint << 20 | 3)|10 30 31
--> order_events(3, 0, 2, 10::bigint << 20 | 3)|10 30
--> order_events(3, 10::bigint << 20 | 3, 9, 10::bigint << 20 | 3)|30 31
--> order_events(4, 0, 9, 10::bigint << 20 | 3)|
--> voucher_events(3, 0, 9)|10 21 30 31 32
--> voucher_events(3, 21::bigint << 20 | 3, 2)|30 31
-- Order 12 is in the batch of another one, and 13 is not yet due.
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

-- The oldest cell counts. The row of an aggregate does not, and a clock may be ahead.
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
execute age;
--> 864...

-- -- sessions --

-- Executes the query after a transaction that is on disk, or with p_level off is not. Other
-- processes flush WAL, too. Returns the level of commits, whether a message was written, and
-- whether the transaction has an id.
-- test_barrier__writes_unless_all_is_on_disk
create procedure pg_temp.try_barrier(p_level text, p_statement text, p_wanted text,
                                     inout answer text) language plpgsql as $$
declare
    v_level text;
    v_message pg_lsn;
begin
    for tried in 1 .. 1000 loop
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

-- With a standby the answer is 3, see it_store_durable.c.
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

-- The settings outlive the transaction.
-- test_session__sets_what_statements_need
select prepare('session');
set default_transaction_isolation = serializable;
set jit = on;
begin;
alter function place_orders(bigint, bigint[], bigint[], text[], boolean[]) rename to renamed;
execute session('10001', '10002', '10003');
--> ...|...|1|...|0|1|10001ms|10002ms|10003ms|read committed|force_generic_plan|off|...
rollback;
execute session('10001', '10002', '10003');
--> ...|...|1|...|0|1|10001ms|10002ms|10003ms|read committed|force_generic_plan|off|...
select string_agg(setting, ' ' order by name) from pg_settings
where name in ('default_transaction_isolation', 'enable_bitmapscan', 'enable_hashjoin',
               'enable_mergejoin', 'enable_seqscan', 'enable_sort', 'idle_session_timeout', 'jit',
               'lock_timeout', 'plan_cache_mode', 'statement_timeout');
--> read committed off off off off off 10003 off 10002 force_generic_plan 10001
