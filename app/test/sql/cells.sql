-- cells.sql - cells, their division, and segments of voucher ids.
--
-- Cell N/M is the cell with number N of M cells. It has the vouchers whose ids leave the remainder
-- N when divided by M. So after a split into two cells, cell 0/2 has voucher 102, and cell 1/2 has
-- voucher 101.

-- test_split_cell__deletes_an_order_that_is_under_way
select new_voucher(10, 1);
begin;
select place(101, '{1}');
--> 1
b: select split_cell(0, 2);
--> waits
commit;
b:
--> 1
select count(*) from voucher_order;
--> 0

-- test_split_cell__lets_no_order_in_behind_it
select new_voucher(10, 1);
begin;
select split_cell(0, 2);
--> 1
b: select place(101, '{1}');
--> waits
commit;
b:
--> 8
select count(*) from voucher_order;
--> 0

-- A session that begins during a split reads the cell. It must wait, and must not see the old cell.
-- test_split_cell__lets_no_session_read_the_old_cell
begin;
select split_cell(0, 2);
b: select min(cells) from cell;
--> waits
commit;
b:
--> 2

-- split_cell() recognises a session of the service by its role. If the session has the role of the
-- owner, split_cell() recognises it by its application_name.
-- test_split_cell__is_refused_while_the_service_is_connected
s: select 1;
select split_cell(0, 2);
--> ERROR P0001: sessions of the service are connected: ... of seckill_service. Stop all ... cell 0/1
r: select pg_terminate_backend(pid, 60000) from pg_stat_activity where usename = 'seckill_service';
--> t
b: set application_name = 'seckill';
select split_cell(0, 2);
--> ERROR P0001: sessions of the service are connected: ...
b: reset application_name;
set application_name = 'seckill';
select split_cell(0, 2), min(cells) from cell;
--> 0|1

-- A voucher that does not exist has the verdict 8, and one of another cell 10.
-- test_place_orders__refuses_vouchers_of_other_cells
select in_cell(0, 2, 'place(101, ''{1,2}'')'), in_cell(0, 2, 'place(102, ''{1,2}'')');
--> 10 10|8 8

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

-- test_split_cell__needs_a_part_of_the_cell
select cell, in_cell(1, 2, format('split_cell(%s)', cell))
from unnest(array['1, 4', '3, 4', '1023, 1024', '0, 4', '2, 4', '5, 4', '-1, 4', '1, 2', '1, 1',
                  '1, 6', '1, 2048']) cell;
--> 1, 4|0
--> 3, 4|0
--> 1023, 1024|0
--> 0, 4|cell 1/2 cannot become 0/4: ...
--> 2, 4|cell 1/2 cannot become 2/4: ...
--> 5, 4|cell 1/2 cannot become 5/4: ...
--> -1, 4|cell 1/2 cannot become -1/4: ...
--> 1, 2|cell 1/2 cannot become 1/2: ...
--> 1, 1|cell 1/2 cannot become 1/1: ...
--> 1, 6|cell 1/2 cannot become 1/6: ...
--> 1, 2048|cell 1/2 cannot become 1/2048: ...
select in_cell(0, 1, 'split_cell(0, 2)'), in_cell(0, 1, 'split_cell(2, 2)');
--> 0|cell 0/1 cannot become 2/2: ...
select in_cell(-1, 2, 'split_cell(0, 4)');
--> ERROR P0002: query returned no rows

-- test_split_cell__keeps_what_belongs_to_its_number
select id, place(id, '{1}'), pay(id, 1, id::text)
from (select new_voucher(10, 1) as id from generate_series(1, 4)) v;
insert into used_key (voucher_id, actor, key, request, made_id)
select case when made_id is null then id else 0 end, 'x', id, 'r', made_id
from voucher, unnest(array[id, null]) made_id;
select split_cell(1, 2);
--> 2
select array_agg(id), (select array_agg(voucher_id) from voucher_order),
       (select array_agg(voucher_id) from order_event),
       (select array_agg(voucher_id) from stock_event), (select array_agg(payment_ref) from payment)
from voucher;
--> {101,103}|{101,103}|{101,103}|{101,103}|{101,103}
select voucher_id, made_id from used_key order by voucher_id, made_id;
--> 0|101
--> 0|103
--> 101|
--> 103|
select number, cells from cell;
--> 1|2

-- These sessions are of a superuser, because only a superuser can read the subscriptions.
-- test_join_aggregate__needs_a_new_database_and_cells_that_do_not_overlap
r: set client_min_messages = error;
-- Two subscriptions that do not count. The name of the first is not that of a cell. The second
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
-- Otherwise the server would warn that its wal_level is too low.
set client_min_messages = error;
create publication mine for table voucher;
select publish_cell('u');
--> {"number" : 0, "cells" : 1, "url" : "u"}
select in_cell(-1, 2, 'publish_cell(''u'')');
--> this database is an aggregate of cells, ...
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

-- The second session waits for the first one. Then it finds that the new segment has begun.
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

-- The worst case of a restore: every voucher that the restore has lost was the first one of a
-- segment. advance_ids() skips 256 segments (16,777,216 ids), so the next voucher of cell 5/1024
-- gets an id above all of them.
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
