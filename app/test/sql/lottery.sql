-- lottery.sql - entering a lottery, and its draw.

-- test_place_orders__enters_each_shopper_once
select new_lottery(1);
select placed(101, '{3,1,3}', '{7,0,8}', '{a,b,c}');
--> 11 11 11 / - - -
select placed(101, '{2,1}');
--> 11 11 / - -
select user_id from lottery_entry order by user_id;
--> 1
--> 2
--> 3
select stock_left, version, seed is null, drawn_at is null from voucher;
--> 1|1|t|t
select count(*) from voucher_order;
--> 0
-- A batch of this size would be inserted at once.
select place(101, array(select generate_series(1, 20)));
--> 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11
select count(*) from lottery_entry;
--> 20
select new_stock, new_version, opens < decided_at, closes > decided_at, price
from place_orders(101, '{4}', '{0}', null);
--> 1|1|t|t|100

-- test_place_orders__enters_only_with_a_ticket
select new_lottery(1);
update voucher set requires_ticket = true;
select place(101, '{1,2}', null, null, '{f,t}');
--> 9 11
select user_id from lottery_entry;
--> 2

-- A shopper who has entered gets the same answer after the close: the service may have lost the
-- first one.
-- test_place_orders__enters_only_while_the_sale_is_open
select new_lottery(1), new_lottery(1);
update voucher set begin_at = now() + interval '1 min' where id = 102;
select place(102, '{1}'), place(101, '{1,2}');
--> 5|11 11
select close(101);
select place(101, '{2,3,1}');
--> 11 6 11
select draw(10), draw(10);
--> t|f
select patch_voucher(101, null, null, null, now() + interval '1 h', null);
select place(101, '{2,3,1}');
--> 11 6 11

-- test_place_many__enters_and_places
select new_lottery(1), new_voucher(1, 1);
select batch, verdicts, order_ids is null, new_stock
from place_many('{101,102}', '{1,2}', '{1,2}', '{7,7}', '{0,0}', null) order by batch;
--> 1|{11}|f|1
--> 2|{1}|f|0

-- test_create_voucher__makes_a_seed_for_a_lottery
select new_lottery(1), new_lottery(1), new_voucher(1, 1);
select v.id, sha256(l.seed) = v.commitment, octet_length(l.seed), l.draw_at = v.end_at
from voucher v left join lottery l on l.voucher_id = v.id order by id;
--> 101|t|32|t
--> 102|t|32|t
--> 103|||
select count(distinct seed) from lottery;
--> 2
select c.commitment is null, c.seed is null, c.drawn_at is null from voucher v, lottery_columns(v) c where id = 103;
--> t|t|t
select count(*) from voucher v, lottery_columns(v) c where c.commitment = encode(v.commitment, 'hex') and c.seed is null;
--> 2

-- test_use_key__belongs_to_a_lottery_or_to_another_voucher
create function given.create_once(p_is_lottery boolean) returns bigint language sql as $$
    select id from create_voucher_once('k', next_voucher_id(), 't', '', 1, 1, 1, 1, '2030-01-01 00:00+00',
                                       '2031-01-01 00:00+00', 1, 'admin:1', false, 0, 1, p_is_lottery)
$$;
select create_once(true), create_once(true);
--> 101|101
select create_once(false);
--> ERROR 23505: the key belongs to another request
drop function given.create_once(boolean);

-- test_draw_lotteries__takes_the_smallest_ranks
select new_lottery(4), new_lottery(1), new_voucher(5, 1);
select place(101, array(select generate_series(1, 40))), place(102, '{1}');
select draw(10), close(101), close(103);
--> f|101|103
b: listen seckill_voucher;
select * from draw_lotteries(3);
--> 101|3|f||
select stock_left, drawn_at is null, sha256(seed) = commitment, version from voucher where id = 101;
--> 1|t|t|3
select * from draw_lotteries(3);
--> 101|4|t||
b: select 1;
--> 1
--> notified 101
select * from draw_lotteries(3);
--> ||||
select stock_left, drawn_at = max(o.created_at), sha256(seed) = commitment, version
from voucher v, voucher_order o where v.id = 101 and o.voucher_id = 101
group by stock_left, drawn_at, seed, commitment, version;
--> 0|t|t|4
select array(select user_id::bigint from voucher_order order by id)
     = array(select user_id::bigint from voucher v, generate_series(1, 40) user_id where v.id = 101
             order by substr(sha256(v.seed || int8send(user_id)), 1, 16) limit 4);
--> t
select seed is null, drawn_at is null, stock_left from voucher where id = 102;
--> t|t|1
-- The orders are those of any sale.
select min(price_cents), min(expires_at - created_at), count(fence), min(slot), max(slot), count(*), count(distinct status)
from voucher_order;
--> 100|00:15:00|0|1|1|4|1
-- The feed has the orders, each batch at the number of its first order.
select count(*), count(distinct first) from feed_events(0, 0, 9000000, 100) where to_status = 'unpaid';
--> 4|2
-- Each batch has an entry in the index of payment deadlines.
update voucher_order set created_at = created_at - interval '1 s', expires_at = created_at;
select sum(expired), sum(ended) from (select id from voucher_order where due_to_id is not null) b, expire_batches(101, array[b.id]);
--> 4|2

-- test_draw_lotteries__ends_without_entries_and_without_stock
select new_lottery(4), new_lottery(0), new_lottery(4);
select place(101, '{1,2,3}'), place(102, '{1}');
select close(101), close(102), close(103);
select count(*) filter (where draw(3)) from generate_series(1, 5);
--> 4
select id, stock_left, seed is null, drawn_at is null from voucher order by id;
--> 101|1|f|f
--> 102|0|f|f
--> 103|4|f|f
select draw(3);
--> f

-- In the second lottery more stock is taken back than is left to draw.
-- test_draw_lotteries__leaves_stock_that_returns
select new_lottery(3), new_lottery(3);
select place(101, array(select generate_series(1, 9))), place(102, '{1,2,3}'), close(101), draw(2);
select cancel(101, (select min(user_id) from voucher_order));
--> 1
select * from draw_lotteries(2);
--> 101|3|t||
select stock_left from voucher where id = 101;
--> 1
select close(102), draw(2);
select cancel(102, (select min(user_id) from voucher_order where voucher_id = 102));
--> 1
select stock_left from restock_voucher(102, -2);
--> 0
select * from draw_lotteries(2);
--> 102|2|t||

-- test_draw_lotteries__ends_although_the_sale_was_extended
select new_lottery(2);
select place(101, '{1,2,3}'), close(101), draw(1);
select patch_voucher(101, null, null, null, now() + interval '1 h', null);
select draw(1), draw(1);
--> t|f
select count(*) from voucher_order;
--> 2

-- test_draw_lotteries__passes_over_a_voucher_that_is_held
select new_lottery(1), new_lottery(1);
select close(101), close(102);
b: begin;
b: select from voucher where id = 101 for update;
select draw(1), draw(1);
--> t|f
b: rollback;
select draw(1), draw(1);
--> t|f

-- test_draw_lotteries__passes_over_a_draw_that_fails
select new_lottery(1), new_lottery(1), place(101, '{1}'), place(102, '{2}');
select close(101);
select close(102);
alter table voucher_order add constraint refused check (voucher_id <> 101);
select voucher, winners, has_ended, refused, reason like '%"refused"' from draw_lotteries(1);
--> 102|1|t|101|t
select * from draw_lotteries(1);
--> |||101|...
select seed is null, stock_left from voucher where id = 101;
--> t|1
alter table voucher_order drop constraint refused;
select * from draw_lotteries(1);
--> 101|1|t||

-- A session that waits with an entry sees the close when it gets the row.
-- test_draw_lotteries__lets_no_entry_in_behind_it
select new_lottery(1);
select place(101, '{1}'), close(101);
begin;
select draw(5);
b: select place(101, '{2,1}');
--> waits
commit;
b:
--> 6 11

-- Two sessions draw at once, and no winner gets two orders.
-- test_draw_lotteries__races_with_itself
select new_lottery(30);
select place(101, array(select generate_series(1, 100))), close(101);
4x20: select draw(2);
select stock_left, count(o), count(distinct o.user_id) from voucher, voucher_order o group by 1;
--> 0|30|30

-- test_read_entry__tells_the_result_after_the_draw
select new_lottery(2);
select place(101, '{1,2,3}');
s: select rank, won from read_entry(101, 1);
--> |
s: select rank, won from read_entry(101, 4);
--> (none)
s: select rank, won from read_entry(102, 1);
--> (none)
select close(101), draw(1);
s: select rank, won from read_entry(101, 1);
--> |
select draw(1);
s: select count(*), sum(e.won), bool_and(e.rank = substr(sha256(v.seed || int8send(u)), 1, 16)) from voucher v, generate_series(1, 3) u, read_entry(101, u) e;
--> 3|2|t
select bool_and(e.won = (o.id is not null)::integer)
from generate_series(1, 3) u cross join read_entry(101, u) e left join voucher_order o on o.user_id = u;
--> t

-- test_read_entries__lists_the_hashes_after_the_draw
select prepare('read_entries'), new_lottery(2), new_lottery(2);
select place(101, '{1,2,3}'), place(102, '{4}'), close(101), close(102), draw(1);
execute read_entries(101, '', 9);
--> (none)
select count(*) filter (where draw(1)) from generate_series(1, 5);
create temp table hash as
select encode(substr(sha256(seed || int8send(user_id)), 1, 16), 'hex') as hash from voucher, generate_series(1, 3) user_id
where id = 101 order by 1;
create function pg_temp.listed(p_from text, p_limit integer) returns text language plpgsql as $$
declare
    r record;
    v_all text;
begin
    for r in execute format('execute read_entries(101, %L, %s)', p_from, p_limit) loop
        v_all := concat_ws(' ', v_all, r.encode, r.has_won);
    end loop;
    return v_all;
end $$;
select pg_temp.listed('', 9) = format('%s 1 %s 1 %s 0', variadic array(select hash from hash order by 1)),
       pg_temp.listed((select max(hash) from hash), 9) = (select max(hash) || ' 0' from hash),
       pg_temp.listed('', 1) = (select min(hash) || ' 1' from hash);
--> t|t|t

-- test_service_role__cannot_read_a_seed
select new_lottery(1), place(101, '{1}');
s: select seed from lottery;
--> ERROR 42501: ...
s: select rank from lottery_entry;
--> ERROR 42501: ...
s: select count(*) from drawn_entry;
--> 0
s: select lottery_rank('x', 1) is null, enter_lottery(v, '{1}', 4::smallint) from voucher v;
--> ERROR 42501: ...

-- test_archive_vouchers__moves_a_lottery_that_is_drawn
create schema archive;
create table archive.voucher (like voucher);
alter table archive.voucher drop column commitment, drop column seed, drop column drawn_at;
select new_lottery(1), new_lottery(1), place(101, '{1,2}'), place(102, '{1}');
select close(101);
select archive_vouchers(102, 'archive');
--> ERROR P0001: voucher 101 is on sale or has an unpaid order
select draw(1);
--> t
select cancel(101, (select user_id from voucher_order)), archive_vouchers(102, 'archive');
--> 1|1
select count(*) from archive.voucher v, archive.lottery l, archive.lottery_entry e
where sha256(l.seed) = v.commitment and e.rank = substr(sha256(v.seed || int8send(e.user_id)), 1, 16) and v.drawn_at is not null;
--> 2
select (select count(*) from lottery), (select count(*) from lottery_entry);
--> 1|1
drop schema archive cascade;

-- test_delete_moved__deletes_a_lottery
select new_lottery(1), new_lottery(1);
select place(101, '{1,2,3}'), place(102, '{1}'), give_half(1, 2);
update moved_voucher set moved_at = moved_at - interval '3 min';
select delete_moved(2), delete_moved(2), delete_moved(2), delete_moved(2);
--> 2|1|1|0
select array_agg(voucher_id), (select array_agg(voucher_id) from lottery_entry) from lottery;
--> {102}|{102}

-- test_erase_user__erases_entries_of_drawn_lotteries
create schema archive;
select new_lottery(3);
select place(101, '{1,2,3}');
select refusal from erase_user(1);
--> the lottery of voucher 101 is not drawn
select close(101);
select voucher is null from erase_ended(0, 'archive');
--> t
select draw(9);
select cancel(101, 1);
select refusal, orders from erase_user(1);
--> |1
select user_id from lottery_entry order by 1;
--> 2
--> 3
select cancel(101, 2), cancel(101, 3);
select voucher, orders from erase_ended(0, 'archive');
--> 101|3
select count(*), (select count(*) from archive.lottery_entry), (select count(*) from lottery_entry) from archive.lottery;
--> 1|0|0
drop schema archive cascade;
