-- cells.sql - cells, their splits, and segments of voucher ids.
--
-- Cell N/M is the cell with number N of M cells. It has the vouchers whose ids leave the remainder
-- N when divided by M. So after the split of the cell 0/1, cell 0/2 has voucher 102, and cell 1/2 has
-- voucher 101.

-- test_give_half__waits_for_an_order_that_is_under_way
select new_voucher(10, 1), new_voucher(10, 1);
begin;
select place(101, '{1}');
--> 1
b: select give_half(1, 2);
--> waits
b:
--> f
commit;
b: select give_half(1, 2);
--> t
select id, voucher ->> 'stock_left', (select array_agg(id) from voucher), (select cells from cell),
       (select count(*) from voucher_order)
from moved_voucher;
--> 101|9|{102}|2|1
select give_half(1, 2);
--> t

-- test_give_half__waits_for_a_voucher_that_is_being_created
begin;
select next_voucher_id();
--> 101
b: select give_half(1, 2);
--> waits
b:
--> f
commit;
b: select give_half(1, 2);
--> t
select next_voucher_id();
--> 102

-- test_give_half__lets_no_order_in_behind_it
select new_voucher(10, 1), new_voucher(10, 1);
begin;
select give_half(1, 2);
--> t
b: select place(101, '{1}');
--> waits
r: select place(102, '{1}');
--> 1
commit;
b:
--> 10
select voucher_id, count(*) from voucher_order group by voucher_id;
--> 102|1

-- test_give_half__notifies_the_service
select new_voucher(10, 1);
b: listen seckill_voucher;
select give_half(1, 2);
--> t
b: select 1;
--> 1
--> notified 0

-- The replica identity shows that the deletion of the vouchers is not published.
-- test_give_half__publishes_what_each_half_keeps
r: set client_min_messages = error;
select new_voucher(10, 1);
r: begin;
r: create publication seckill_cell for table voucher, voucher_order, order_event, stock_event, cell;
r: alter table voucher replica identity nothing;
r: select give_half(1, 2);
--> t
r: select tablename, rowfilter from pg_publication_tables where pubname = 'seckill_cell' order by 1 limit 2;
--> cell|((number = 0) AND (0 >= 0))
--> order_event|((voucher_id % (2)::bigint) = 0)
r: insert into cell values (-1, 2);
r: select take_half('{"number":1,"cells":2,"last_voucher":500,"last_number":9000}');
r: select tablename, rowfilter from pg_publication_tables where pubname = 'seckill_cell' order by 1 limit 2;
--> cell|((number = 1) AND (1 >= 0))
--> order_event|((voucher_id % (2)::bigint) = 1)
r: rollback;

-- test_give_half__needs_the_cell_of_the_half
select cell, half, in_cell(cell[1], cell[2], format('give_half(%s, %s)', half[1], half[2]))
from (values ('{0,1}'::int[], '{1,2}'::int[]), ('{1,2}', '{3,4}'), ('{0,4}', '{2,4}'), ('{0,2}', '{1,4}'),
             ('{1,4}', '{2,4}'), ('{0,1}', '{2,4}'), ('{0,2}', '{4,4}')) c (cell, half);
--> {0,1}|{1,2}|true
--> {1,2}|{3,4}|true
--> {0,4}|{2,4}|true
--> {0,2}|{1,4}|cell 0/2 cannot give up 1/4
--> {1,4}|{2,4}|cell 1/4 cannot give up 2/4
--> {0,1}|{2,4}|cell 0/1 cannot give up 2/4
--> {0,2}|{4,4}|cell 0/2 cannot give up 4/4
select in_cell(-1, 2, 'give_half(1, 2)');
--> ERROR P0002: query returned no rows

-- test_given_half__does_not_change
select prepare('due_batches');
select new_voucher(10, 1), place(101, '{1,2}'), make_due(101, 1), give_half(1, 2);
select pay(101, 2), cancel(101, 2), expire(101, 1);
--> 5|5|0
execute due_batches(9, '{}');
select status from voucher_order;
--> unpaid
--> unpaid

-- test_place_orders__refuses_vouchers_of_other_cells
select in_cell(0, 2, 'place(101, ''{1,2}'')'), in_cell(0, 2, 'place(102, ''{1,2}'')');
--> 10 10|8 8

-- test_take_half__makes_the_vouchers_its_own
select new_voucher(10, 1), new_voucher(10, 1), place(101, '{1}'), place(102, '{1}');
insert into used_key (voucher_id, actor, key, request, made_id)
values (0, 'x', 'a', 'r', 101), (0, 'x', 'b', 'r', 102), (101, 'x', 'c', 'r', null);
insert into cell values (-1, 2);
create temp table before as table voucher;
select take_half('{"number":1,"cells":2,"last_voucher":500,"last_number":9000}');
--> ERROR P0001: the cell 1/2 has not been given up, or not all of it has arrived
select give_half(1, 2);
delete from voucher;
delete from voucher_order where voucher_id = 102;
delete from stock_event where voucher_id = 102;
select take_half('{"number":1,"cells":2,"last_voucher":500,"last_number":9000}');
select number, cells, (select count(*) from moved_voucher), (select array_agg(key order by key) from used_key)
from cell;
--> 1|2|0|{a,c}
select id from voucher intersect select v.id from before b join voucher v on v = b;
--> 101
select place(101, '{1,2}'), place(102, '{1}'), next_voucher_id(), order_of(101, 2) >> 20;
--> 3 1|10|501|9002
select take_half('{"number":1,"cells":2,"last_voucher":1,"last_number":1}');
select next_voucher_id();
--> 503
drop table before;

-- test_take_half__waits_for_another_call
select new_voucher(10, 1), give_half(1, 2);
insert into cell values (-1, 2);
begin;
select take_half('{"number":1,"cells":2,"last_voucher":500,"last_number":9000}');
b: select take_half('{"number":1,"cells":2,"last_voucher":500,"last_number":9000}');
--> waits
commit;
b:
select array_agg(id), (select count(*) from cell) from voucher;
--> {101}|1

-- test_half_sequences__are_the_last_numbers
select new_voucher(10, 1);
select half_sequences(1, 2);
--> {"number" : 1, "cells" : 2, "last_voucher" : 101, "last_number" : 1001}

-- test_delete_moved__deletes_what_was_given_two_minutes_ago
select new_voucher(10, 1), new_voucher(10, 1), place(102, '{1,2}'), place(101, '{1,2,3}');
select pay(102, 1, 'other'), pay(102, 2, 'others'), pay(101, 1);
insert into used_key (voucher_id, actor, key, request, made_id)
values (0, 'x', 'a', 'r', 101), (0, 'x', 'b', 'r', 102), (101, 'x', 'c', 'r', null), (102, 'x', 'd', 'r', null);
select give_half(1, 2);
update moved_voucher set moved_at = now() - interval '119 s';
select delete_moved(2);
--> 0
update moved_voucher set moved_at = now() - interval '121 s';
select delete_moved(2) from generate_series(1, 4);
--> 3
--> 1
--> 1
--> 0
select array_agg(voucher_id), (select array_agg(voucher_id) from order_event),
       (select array_agg(voucher_id) from stock_event), (select array_agg(payment_ref) from payment),
       (select array_agg(key) from used_key), (select count(*) from moved_voucher)
from voucher_order;
--> {102,102}|{102,102}|{102}|{other,others}|{b,d}|0

-- Until the split has ended, the other database receives the deletions in this database.
-- test_delete_moved__waits_for_the_end_of_the_split
r: set client_min_messages = error;
r: begin;
r: select new_voucher(10, 1), publish_half('u'), give_half(1, 2);
r: savepoint here;
r: select delete_moved(2);
--> ERROR P0001: the split has not ended: call seckill cells split again
r: rollback to here;
r: select archive_vouchers(102, 'archive');
--> ERROR P0001: the split of this cell has not ended: ...
r: rollback;

-- test_expire_batches__of_a_given_voucher_changes_nothing
select new_voucher(10, 1), place(101, '{1}'), pay(101, 1);
update voucher_order set due_to_id = id;
select give_half(1, 2);
select * from expire_batches(101, array(select id from voucher_order));
--> 0|0
select due_to_id is not null from voucher_order;
--> t

-- test_publish_half__has_the_rows_of_the_half
-- Without this setting the server would warn that its wal_level is too low.
r: set client_min_messages = error;
r: begin;
r: select publish_half('u') from generate_series(1, 2);
--> {"name" : "seckill_half_1_2", "number" : 1, "cells" : 2, "url" : "u"}
--> {"name" : "seckill_half_1_2", "number" : 1, "cells" : 2, "url" : "u"}
r: select tablename, rowfilter from pg_publication_tables where pubname = 'seckill_half_1_2' order by 1;
--> cell|
--> lottery|((voucher_id % (2)::bigint) = 1)
--> lottery_entry|((voucher_id % (2)::bigint) = 1)
--> moved_voucher|((id % (2)::bigint) = 1)
--> order_event|((voucher_id % (2)::bigint) = 1)
--> payment|((order_id % (2)::bigint) = 1)
--> stock_event|((voucher_id % (2)::bigint) = 1)
--> used_key|(((voucher_id % (2)::bigint) = 1) OR (voucher_id = 0))
--> voucher_order|((voucher_id % (2)::bigint) = 1)
r: update payment set is_archived = true;
r: savepoint here;
r: insert into cell values (-1, 1);
r: select publish_half(null);
--> ERROR P0001: this database is an aggregate of cells, or receives ...
r: rollback to here;
r: select in_cell(3, 1024, 'publish_half(null)'), in_cell(-1, 2, 'publish_half(null)'),
          in_cell(3, 512, 'publish_half(''u'')');
--> cell 3/1024 cannot be split: ...|this database is an aggregate of cells, or receives ...|...number" : 515, "cells" : 1024...
r: rollback;

-- test_receive_half__needs_a_new_database
r: begin;
r: select receive_half('{"name":"seckill_half_1_2","cells":2,"url":"dbname=a"}');
--> create subscription seckill_half_1_2 connection 'dbname=a' publication seckill_half_1_2
r: select * from cell;
--> -1|2|infinity
r: create subscription mine connection 'dbname=a' publication mine with (connect = false);
r: select in_cell(0, 1, 'receive_half(''{}'')');
--> this database holds vouchers or payments, is one of many cells, or receives data: ...
r: rollback;
select in_cell(0, 2, 'receive_half(''{}'')');
--> this database holds vouchers or payments, is one of many cells, or receives data: ...
insert into payment values ('x', 1);
select in_cell(0, 1, 'receive_half(''{}'')');
--> this database holds vouchers or payments, is one of many cells, or receives data: ...
delete from payment;
select new_voucher(10, 1);
r: select in_cell(0, 1, 'receive_half(''{}'')');
--> this database holds vouchers or payments, is one of many cells, or receives data: ...

-- test_publish_own__leaves_out_the_other_cells
r: begin;
r: select publish_own(1, 4);
r: create publication seckill_cell for table voucher, voucher_order, order_event, stock_event, cell;
r: select publish_own(1, 4);
r: select tablename, rowfilter from pg_publication_tables where pubname = 'seckill_cell' order by 1;
--> cell|((number = 1) AND (1 >= 0))
--> order_event|((voucher_id % (4)::bigint) = 1)
--> stock_event|((voucher_id % (4)::bigint) = 1)
--> voucher|
--> voucher_order|((voucher_id % (4)::bigint) = 1)
r: select publish_own(0, 4);
r: select tablename, rowfilter from pg_publication_tables where tablename = 'voucher';
--> voucher|
r: select publish_own(-1, 1);
r: select tablename, rowfilter from pg_publication_tables where tablename = 'voucher';
--> voucher|false
r: rollback;

-- test_set_cell__accepts_powers_of_two_only
select cell, in_cell(0, 1, format('set_cell(%L)', cell))
from unnest('{0/1,0/2,1/2,1023/1024,2/2,0/3,0/0,0/2048,00001/2,-1/2,x}'::text[]) cell;
--> 0/1|
--> 0/2|
--> 1/2|
--> 1023/1024|
--> 2/2|there is no cell 2/2: the number of cells is a power of two ...
--> 0/3|there is no cell 0/3: ...
--> 0/0|there is no cell 0/0: ...
--> 0/2048|there is no cell 0/2048: ...
--> 00001/2|there is no cell 00001/2: ...
--> -1/2|there is no cell -1/2: ...
--> x|there is no cell x: ...
select in_cell(-1, 2, 'set_cell(''0/2'')');
--> this database is an aggregate of cells: a cell ...
select set_cell('3/4');
select number, cells from cell;
--> 3|4
select new_voucher(10, 1);
select cell, in_cell(1, 2, format('set_cell(%L)', cell)) from unnest('{1/2,0/2,1/4}'::text[]) cell;
--> 1/2|
--> 0/2|this database holds vouchers of cell 1/2, ...
--> 1/4|this database holds vouchers of cell 1/2, ...
truncate voucher, stock_event;

-- test_join_aggregate__needs_a_new_database_and_cells_that_do_not_overlap
r: set client_min_messages = error;
-- Two subscriptions that do not count: the first does not have the name of a cell, and the second
-- belongs to another database.
r: begin;
r: create subscription mine connection 'dbname=a' publication mine with (connect = false);
r: create subscription seckill_cell_7 connection 'dbname=a' publication mine with (connect = false);
r: set allow_system_table_mods = on;
r: update pg_subscription set subdbid = 1 where subname = 'seckill_cell_7';
r: select join_aggregate('{"number":0,"cells":2,"url":"dbname=a"}');
--> create subscription seckill_cell_0 connection 'dbname=a' publication seckill_cell
r: select number, cells, alive_at from cell;
--> -1|2|infinity
r: create subscription seckill_cell_0 connection 'dbname=a' publication seckill_cell
   with (connect = false);
r: select cell, in_cell(-1, 2, format('join_aggregate(%L)', cell))
   from unnest(array['{"number":0,"cells":2,"url":"dbname=a"}',
                     '{"number":0,"cells":2,"url":"dbname=b"}',
                     '{"number":1,"cells":2,"url":"dbname=a"}',
                     '{"number":1,"cells":2,"url":"dbname=b"}']) cell;
--> ...a"}|null
--> ...b"}|another database replicates to this aggregate as cell 0/2: each cell needs ...
--> ...a"}|create subscription seckill_cell_1 connection 'dbname=a' publication seckill_cell
--> ...b"}|create subscription seckill_cell_1 connection 'dbname=b' publication seckill_cell
r: insert into cell values (0, 2);
r: select join_aggregate(format('{"number":%s,"cells":%s,"url":"dbname=b"}', number, cells)::json)
   from (values (1, 4), (3, 4), (1, 1024)) c (number, cells);
--> create subscription seckill_cell_1 connection 'dbname=b' publication seckill_cell
--> create subscription seckill_cell_3 connection 'dbname=b' publication seckill_cell
--> create subscription seckill_cell_1 connection 'dbname=b' publication seckill_cell
r: savepoint here;
r: select join_aggregate('{"number":2,"cells":4,"url":"dbname=b"}');
--> ERROR P0001: cell 2/4 cannot replicate to this aggregate, which has cell 0/2: both have ...
r: rollback to here;
r: update cell set number = 5, cells = 8 where number = 0;
r: select join_aggregate('{"number":2,"cells":4,"url":"dbname=b"}');
--> create subscription seckill_cell_2 connection 'dbname=b' publication seckill_cell
r: select join_aggregate('{"number":1,"cells":4,"url":"dbname=b"}');
--> ERROR P0001: cell 1/4 cannot replicate to this aggregate, which has cell 5/8: both have ...
r: rollback;
select new_voucher(10, 1);
r: select in_cell(0, 1, 'join_aggregate(''{"number":0,"cells":2,"url":"dbname=a"}'')');
--> this database holds vouchers of its own: an aggregate ...

-- test_publish_cell__describes_the_cell
-- Without this setting the server would warn that its wal_level is too low.
set client_min_messages = error;
create publication mine for table voucher;
select publish_cell('u');
--> {"number" : 0, "cells" : 1, "url" : "u"}
select in_cell(-1, 2, 'publish_cell(''u'')');
--> this database is an aggregate of cells, ...
drop publication seckill_cell;
update cell set cells = 2;
select publish_cell('u');
--> {"number" : 0, "cells" : 2, "url" : "u"}
select rowfilter from pg_publication_tables where pubname = 'seckill_cell' and tablename = 'voucher_order';
--> ((voucher_id % (2)::bigint) = 0)
drop publication seckill_cell, mine;

-- -- segments --

-- A segment ends when 262,144 orders and events have been numbered since its first voucher was
-- created.
-- test_next_voucher_id__begins_a_segment_after_many_numbers
select new_next_voucher(0), new_next_voucher(262143), new_next_voucher(0), new_next_voucher(0),
       new_next_voucher(262144);
--> 101|102|65536|65537|131072
select segment_of(65535), segment_of(65536), segment_of(131071);
--> 0|1|1

-- test_next_voucher_id__begins_a_segment_once
select new_next_voucher(0);
begin;
select new_next_voucher(262144);
--> 65536
b: select next_voucher_id();
--> waits
commit;
b:
--> 65537

-- A restore has lost some vouchers. Their ids are at most 16,777,216 above the last id that is left.
-- So advance_ids() skips as many ids.
-- test_advance_ids__gives_no_voucher_id_again
update cell set number = 5, cells = 1024;
select setval('voucher_id_seq', 2048);
select * from advance_ids();
--> 16779264|10000001000
select next_voucher_id();
--> 16779269

-- test_create_voucher__refuses_an_id_above_the_bound
select id from create_voucher(8796093022207, 'title', '', 1, 1, 1, 1, now(),
                              now() + interval '1 h', 900);
--> 8796093022207
select create_voucher(8796093022208, 'title', '', 1, 1, 1, 1, now(), now() + interval '1 h', 900);
--> ERROR 23514: ... violates check constraint "voucher_id_bound"
