-- erase.sql - the ids of shoppers are replaced, and the data stay valid.

-- Shopper 7 has three orders: a paid and a cancelled order of voucher 101, and an unpaid order of
-- voucher 102. Shopper 8 has a cancelled order of voucher 101, and shopper 9 an unpaid order of
-- voucher 101. Another session holds the row of voucher 103, which has no order of shopper 7.
-- test_erase_user__replaces_the_shopper_in_orders_and_history
select new_voucher(9, 2), new_voucher(9, 2), new_voucher(9, 2);
select place(103, '{8}');
c: begin;
c: select from voucher where id = 103 for update;
set lock_timeout = '60s';
select place(101, '{7,8,9}', '{1,2,3}', '{a,b,c}'), place(102, '{7}', '{4}'), pay(101, 7);
select verdict from change_order('cancel', 101, order_of(101, 8), 'shopper:8', 'k8', null, null)
union all
select count(*) from place_orders(101, '{7}', '{5}', '{d}')
union all
select verdict from change_order('cancel', 101, order_of(101, 7), 'shopper:7', 'k7', null, null);
--> 1
--> 1
--> 1
select id from restock_voucher_once('k1', 101, 1, 'admin:7');
--> 101
select * from erase_user(7);
--> the sale of voucher 101 has not ended|0|0|0
update voucher set end_at = now() where id = 101;
select * from erase_user(7);
--> the sale of voucher 102 has not ended|0|0|0
update voucher set end_at = now() where id = 102;
select refusal ~ '^order \d+ of voucher 102 is unpaid$', orders, events, keys from erase_user(7);
--> t|0|0|0
select verdict from change_order('cancel', 102, order_of(102, 7), 'shopper:7', 'k7', null, null);
--> 1
select * from erase_user(7);
--> |3|2|4
c: rollback;
-- The two orders of voucher 101 have the same new id. The order of voucher 102 has another new id.
select voucher_id, count(*), count(distinct user_id), bool_and(to_hex(user_id) ~ '^4[0-9a-f]{15}$'),
       count(request_key)
from voucher_order where user_id > 9 group by voucher_id order by 1;
--> 101|2|1|t|0
--> 102|1|1|t|0
select count(distinct user_id) from voucher_order where user_id > 9;
--> 2
select o.status, o.slot, o.fence, string_agg(replace(e.actor, o.user_id::text, 'ID'), ' ' order by e.id)
from voucher_order o left join order_event e on e.order_id = o.id where o.user_id > 9
group by o.id, o.status, o.slot, o.fence order by o.id;
--> paid|1|1|payment:1
--> cancelled||4|shopper:ID
--> cancelled||5|shopper:ID
select o.user_id, o.request_key, e.actor from voucher_order o left join order_event e on e.order_id = o.id
where o.user_id < 10 order by o.id;
--> 8||
--> 8|b|shopper:8
--> 9|c|
select actor, key from used_key order by 1;
--> admin:7|k1
--> shopper:8|k8
select * from erase_user(7);
--> |0|0|0
select order_id from voucher_history where actor = 'shopper:7';
--> (none)

-- test_erase_user__includes_archives
create schema archive;
create schema other;
create table other.voucher_order (voucher_id bigint, user_id bigint);
insert into other.voucher_order values (101, 7);
select new_voucher(9, 1), new_voucher(9, 1);
select place(101, '{7,8}', '{1,2}', '{a,b}'), pay(101, 7), place(102, '{7}'), cancel(101, 8);
update voucher set end_at = now() where id = 101;
select archive_vouchers(102, 'archive');
--> 1
select orders, refusal from erase_user(7);
--> 0|the sale of voucher 102 has not ended
select user_id, request_key from archive.voucher_order order by 1;
--> 7|a
--> 8|b
select cancel(102, 7);
update voucher set end_at = now();
update order_event set actor = 'shopper:7' where voucher_id = 102;
update archive.order_event set actor = 'shopper:7' where to_status = 'paid';
select * from erase_user(7);
--> |2|2|1
select count(*), count(request_key) from archive.voucher_order where user_id > 8;
--> 1|0
select actor ~ '^shopper:\d{19}$' from archive.order_event where to_status = 'paid';
--> t
select * from other.voucher_order;
--> 101|7
select current_setting('search_path') ~ 'archive';
--> f
drop schema archive, other cascade;

-- test_erase_user__waits_for_the_voucher_and_sees_it_reopened
select new_voucher(9, 1), place(101, '{7}'), pay(101, 7);
update voucher set end_at = now();
begin;
update voucher set end_at = now() + interval '1 h';
b: select * from erase_user(7);
--> waits
commit;
b:
--> the sale of voucher 101 has not ended|0|0|0

-- test_erase_user__is_for_cells
select new_voucher(9, 1), place(101, '{7}'), pay(101, 7);
update voucher set end_at = now();
insert into cell values (-1, 1);
select * from erase_user(7);
--> this database is an aggregate: erase the shopper in each of its cells|0|0|0
select erase_ended(0, 'archive');
--> ERROR P0001: this database is an aggregate: erase the shoppers in each of its cells
delete from cell where number < 0;

-- Voucher 101 was given to another cell, which has to erase its orders.
-- test_erase_user__leaves_out_what_was_given_to_another_cell
select new_voucher(9, 1), new_voucher(9, 1), place(101, '{7}'), place(102, '{7}'), pay(101, 7), pay(102, 7, 'y');
update voucher set end_at = now();
select give_half(1, 2);
select * from erase_user(7);
--> |1|0|0
select voucher_id from voucher_order where user_id = 7;
--> 101

-- Voucher 101 has an unpaid order, 102 ended two days ago, 103 ended today, and 104 three days ago.
-- test_erase_ended__archives_old_sales_without_their_shoppers
create schema archive;
select new_voucher(9, 2), new_voucher(9, 2), new_voucher(9, 2), new_voucher(9, 2);
select place(v, '{7,8}', '{1,2}', '{a,b}'), place(v, '{7}', '{3}'), pay(v, 7, v || 'x')
from generate_series(101, 104) v;
select cancel(v, 8), cancel_order(v, min(id), 'shopper:7')
from generate_series(102, 104) v join voucher_order on voucher_id = v where user_id = 7 group by v;
update voucher set begin_at = now() - interval '9 days',
                   end_at = now() - case id when 103 then 1 when 104 then 3 else 2 end * interval '1 day';
insert into used_key (voucher_id, actor, key, request)
values (102, 'shopper:7', 'k', ''), (102, 'admin:7', 'k', ''), (103, 'shopper:7', 'k', '');
b: begin;
b: select from voucher where id in (101, 103) for update;
select erase_ended(2, current_schema());
--> ERROR P0001: an archive needs another schema than ...
select * from erase_ended(2, 'archive');
--> 102|3|1|3
select * from erase_ended(2, 'archive');
--> 104|3|1|2
select * from erase_ended(2, 'archive');
--> |||
b: rollback;
select id from voucher order by id;
--> 101
--> 103
select voucher_id, count(*), count(distinct user_id), min(user_id) > 8, count(request_key)
from archive.voucher_order group by 1 order by 1;
--> 102|3|2|t|0
--> 104|3|2|t|0
select count(distinct user_id) from archive.voucher_order;
--> 4
select voucher_id, actor from used_key order by 1;
--> 102|admin:7
--> 103|shopper:7
select payment_ref from payment where is_archived order by 1;
--> 102x
--> 104x
drop schema archive cascade;
