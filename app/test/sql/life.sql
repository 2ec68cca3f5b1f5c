-- life.sql - orders after they were placed: states, stock, history, rights.

-- Each call is made in each state. The result has the verdict of the call, then the status of the
-- order, and then the number of pieces that the call has returned to the stock.
-- test_life__each_call_in_each_state
create temp sequence shopper;
create function pg_temp.after(p_way text[], p_call text) returns text language plpgsql as $$
declare
    v_shopper bigint := nextval('shopper');
    v_call text;
    v_verdict bigint;
    v_before bigint;
begin
    perform place(101, array[v_shopper]);
    foreach v_call in array p_way || p_call loop
        select stock_left into v_before from voucher;
        execute format('select ' || v_call, v_shopper) into v_verdict;
    end loop;
    return (select concat_ws(' ', v_verdict, o.status, stock_left - v_before)
            from voucher, voucher_order o where o.user_id = v_shopper);
end $$;
create function pg_temp.after_all(p_way text[]) returns text language sql as $$
    select string_agg(pg_temp.after(p_way, call), ', ' order by at)
    from unnest(array['pay(101, %s)', 'pay(101, %1$s, ''two %1$s'')', 'pay(101, %s, null, 99)',
                      'cancel(101, %s)', 'refund(101, %s)', 'redeem(101, %s)'])
         with ordinality c (call, at)
$$;
select new_voucher(100, 1);
select pg_temp.after_all('{}');
--> 1 paid 0, 1 paid 0, 4 unpaid 0, 1 cancelled 1, 3 unpaid 0, 3 unpaid 0
select pg_temp.after_all(array['pay(101, %s)']);
--> 2 paid 0, 3 paid 0, 4 paid 0, 3 paid 0, 1 refunded 1, 1 redeemed 0
select pg_temp.after_all(array['pay(101, %s)', 'redeem(101, %s)']);
--> 2 redeemed 0, 3 redeemed 0, 4 redeemed 0, 3 redeemed 0, 3 redeemed 0, 3 redeemed 0
select pg_temp.after_all(array['pay(101, %s)', 'refund(101, %s)']);
--> 3 refunded 0, 3 refunded 0, 3 refunded 0, 3 refunded 0, 3 refunded 0, 3 refunded 0
select pg_temp.after_all(array['cancel(101, %s)']);
--> 3 cancelled 0, 3 cancelled 0, 3 cancelled 0, 3 cancelled 0, 3 cancelled 0, 3 cancelled 0

-- test_life__there_is_no_such_order
select new_voucher(5, 1), new_voucher(5, 1), place(101, '{1}');
select v, p.verdict, c.verdict, r.verdict, d.verdict, expire_orders(v, array[o])
from (values (101, order_of(101, 1) + 1048576), (102, order_of(101, 1)),
      (777777, order_of(101, 1))) x (v, o),
     pay_order(v, o, 'payment:1', 'ref', 100) p, cancel_order(v, o, 'shopper:1') c,
     refund_order(v, o, 'admin:1') r, redeem_order(v, o, 'admin:1') d;
--> 101|5|5|5|5|0
--> 102|5|5|5|5|0
--> 777777|5|5|5|5|0
select status from voucher_order;
--> unpaid

-- test_life__answers_the_order_as_it_is_then
select new_voucher(5, 1), place(101, '{1}');
select verdict, (changed).status, (changed).payment_ref, (changed).slot,
       (changed).paid_at between now() and clock_timestamp()
from pay_order(101, order_of(101, 1), 'payment:1', 'ref', 100);
--> 1|paid|ref|1|t
select verdict, (changed).status, (changed).payment_ref, (changed).slot
from refund_order(101, order_of(101, 1), 'admin:1');
--> 1|refunded|ref|
select cancel(101, 1);
--> 3
select version from voucher;
--> 3

-- test_pay_order__is_too_late_after_the_deadline
select new_voucher(5, 1), place(101, '{1}'), make_due(101, 1);
select pay(101, 1), pay(101, 1);
--> 3|3
select status, stock_left from voucher_order, voucher;
--> expired|5

-- test_expire_orders__takes_those_that_are_unpaid_and_overdue
select new_voucher(10, 1), place(101, '{1,2,3,4,5}'), pay(101, 2), cancel(101, 4),
       make_due(101, 1), make_due(101, 5);
select expire_orders(101, array[order_of(101, 2), order_of(101, 3), order_of(101, 1),
                                order_of(101, 4), 1]);
--> 1
select user_id, status, stock_left from voucher_order, voucher order by user_id;
--> 1|expired|7
--> 2|paid|7
--> 3|unpaid|7
--> 4|cancelled|7
--> 5|unpaid|7
select expire(101, 1);
--> 0
select stock_left from voucher;
--> 7

-- expire_orders() holds the row lock of the voucher. If it waited for an order, the sale would
-- wait, too.
-- test_expire_orders__does_not_wait_for_locked_orders
select new_voucher(10, 1), place(101, '{1,2}'), make_due(101, 1), make_due(101, 2);
b: begin;
b: select from voucher_order where user_id = 1 for update;
select expire_orders(101, array[order_of(101, 1), order_of(101, 2)]);
--> 1
select user_id, status from voucher_order order by user_id;
--> 1|unpaid
--> 2|expired
b: rollback;
select expire(101, 1);
--> 1

-- test_move_orders__of_no_order_leaves_the_voucher
select new_voucher(5, 1), place(101, '{1}'), pay(101, 1);
select version from voucher;
--> 2
select move_orders(101, array[order_of(101, 1)], 'unpaid', 'cancelled', now(), 'x');
--> 0
select version from voucher;
--> 2

-- The number of orders is limited, because the sale of the voucher waits during the call. The
-- update gives the first order of the batch a smaller id than the order of voucher 102. So ids of
-- another voucher lie between the ids of the batch, and must not count.
-- test_expire_batches__takes_500_orders_of_its_voucher_at_most
select new_voucher(999, 1), new_voucher(99, 1), new_voucher(99, 1);
select place(102, '{1}'), place(101, array(select generate_series(1::bigint, 600)));
update voucher_order set id = id - (5::bigint << 20) where due_to_id > id;
update voucher_order set expires_at = created_at + interval '1 us';
create temp table batch as select id as first_id from voucher_order where due_to_id > id;
select v, e.* from batch, unnest('{102,103,101,101}'::bigint[]) v, expire_batches(v, array[first_id]) e;
--> 102|0|0
--> 103|0|0
--> 101|500|0
--> 101|100|1

-- Shopper 3 still has time to pay, so the batch of shopper 3 and all later batches have not ended.
-- A batch that has ended is not counted again. ended_fence is the greatest fence of the ended
-- orders of voucher 101.
-- test_expire_batches__ends_batches_up_to_one_with_an_unpaid_order
select new_voucher(9, 1), new_voucher(9, 1);
select place(101, '{1}', '{9}'), place(101, '{2}', '{5}'), place(101, '{3}', '{11}'),
       place(102, '{2}', '{20}'), make_due(101, 1), make_due(101, 2);
create function pg_temp.expire(p_users bigint[]) returns text language sql as $$
    select expired || ' ' || ended
    from expire_batches(101, array(select order_of(101, user_id) from unnest(p_users) user_id))
$$;
select pg_temp.expire('{3,1,2}');
--> 2 0
select ended_fence, version from voucher where id = 101;
--> 9|5
select pg_temp.expire('{1,3,2}'), pg_temp.expire('{1,2}'), pg_temp.expire('{2}');
--> 0 1|0 0|0 1
select user_id, due_to_id is null from voucher_order where voucher_id = 101 order by id;
--> 1|t
--> 2|t
--> 3|f

-- A fence is stale if it is not greater than the fence of an order of this shopper that has ended.
-- The fence of the ended order itself is stale, too.
-- test_life__a_shopper_may_order_again_after_an_end
select new_voucher(1, 1);
select place(101, '{7}', '{10}'), place(101, '{7}', '{11}'), cancel(101, 7),
       place(101, '{7}', '{10}'), place(101, '{7}', '{1}');
--> 1|3|1|7|7
select place(101, '{7}', '{20}'), place(101, '{7}', '{21}'), make_due(101, 7), expire(101, 7),
       place(101, '{7}', '{20}');
--> 1|3||1|7
select place(101, '{7}', '{30}'), place(101, '{7}', '{31}'), pay(101, 7), refund(101, 7),
       place(101, '{7}', '{30}');
--> 1|3|1|1|7

-- test_repair_fences__lets_shoppers_order_again
create function pg_temp.order_now(p_user bigint) returns text language sql as $$
    select place(101, array[p_user], array[unix_us(clock_timestamp())])
$$;
select new_voucher(10, 2);
select place(101, '{8}', '{8999999999999999}'), cancel(101, 8),
       place(101, '{7}', '{8999999999999998}'), pg_temp.order_now(9);
--> 1|1|1|1
select pg_temp.order_now(7), pg_temp.order_now(8);
--> 7|7
select repair_fences();
--> 2
select repair_fences();
--> 0
select ended_fence = max(fence), ended_fence < unix_us(now()) from voucher, voucher_order
group by ended_fence;
--> t|t
select user_id, place(101, array[user_id], array[fence]), pg_temp.order_now(user_id)
from voucher_order order by user_id;
--> 7|7|1
--> 8|7|1
--> 9|7|1

-- test_repair_fences__mends_a_voucher_without_orders
select new_voucher(10, 1);
update voucher set ended_fence = 8999999999999999;
select repair_fences();
--> 0
select ended_fence from voucher;
--> 0

-- Vouchers 101 and 102 have ended orders with fences far ahead of the clock, and voucher 103 has a
-- live order with such a fence. The fence of voucher 104's order is less than a day ahead, so it is
-- not repaired.
-- test_repair_fences__locks_the_vouchers_that_it_changes
select new_voucher(9, 1), new_voucher(9, 1), new_voucher(9, 1), new_voucher(9, 1);
select place(id, '{1}', array[8999999999999999]), cancel(id, 1) from voucher where id < 103;
select place(103, '{1}', '{8999999999999999}'),
       place(104, '{1}', array[unix_us(clock_timestamp() + interval '1 h')]);
--> 1|1
b: begin;
b: select from voucher where id = 104 for update;
c: begin;
c: select from voucher where id = 102 for update;
set lock_timeout = '60s';
select repair_fences();
--> waits
c: select from voucher_order where voucher_id = 102 for update nowait;
c: rollback;
a:
--> 3
select v.id, ended_fence = coalesce(max(fence) filter (where slot is null), 0),
       max(fence) < unix_us(clock_timestamp() + interval '1 day')
from voucher v join voucher_order o on voucher_id = v.id group by v.id order by v.id;
--> 101|t|t
--> 102|t|t
--> 103|t|t
--> 104|t|t

-- test_life__locks_its_voucher
select new_voucher(9, 1), new_voucher(9, 1);
select place(101, '{1,2,3,4,5}'), make_due(101, 2), make_due(101, 3);
b: begin;
b: select from voucher where id = 102 for update;
set lock_timeout = '60s';
select place(101, '{6}'), pay(101, 1), expire(101, 2), ended
from expire_batches(101, array[order_of(101, 3)]);
--> 1|1|1|1
b: select from voucher where id = 101 for update;
select pay(101, 4);
--> waits
b: rollback;
a:
--> 1
b: begin;
b: select from voucher where id = 101 for update;
select expire(101, 5);
--> waits
b: rollback;
a:
--> 0

-- test_life__notifies_when_a_sold_out_voucher_has_stock_again
select new_voucher(2, 1), place(101, '{1,2}');
b: listen seckill_voucher;
select pay(101, 1);
b: select 1;
--> 1
select refund(101, 1);
b: select 1;
--> 1
--> notified 101
select cancel(101, 2);
b: select 1;
--> 1

-- test_history__lists_all_in_the_order_of_commits
select new_voucher(10, 1);
select place(101, '{7}'), pay(101, 7), refund(101, 7);
select restock_voucher(101, -3, 'admin:9');
select place(101, '{8}'), make_due(101, 8), expire(101, 8);
select actor, from_status, to_status, stock_change, detail from voucher_history order by id;
--> admin|||10|
--> shopper:7||unpaid|-1|
--> payment:1|unpaid|paid|0|ref 7
--> admin:1|paid|refunded|1|
--> admin:9|||-3|
--> shopper:8||unpaid|-1|
--> system|unpaid|expired|1|

-- -- payments --

-- A payment_ref that has paid another order is refused before anything else is checked, in every
-- state of the order that is to be paid. After another refusal the caller would return money that
-- belongs to the other order. Shopper 1 has paid with "a" and shopper 4 with "p". The order of
-- shopper 5 is cancelled.
-- test_pay_order__refuses_the_ref_of_another_order
select new_voucher(10, 1), new_voucher(10, 1);
select place(101, '{1,2,4}'), place(102, '{3,5}'), cancel(102, 5), pay(101, 4, 'p'),
       pay(101, 1, 'a');
--> 1 1 1|1 1|1|1|1
select pay(101, 2, 'a'), pay(101, 2, 'a', 99), pay(102, 3, 'a'), pay(102, 5, 'a'), pay(101, 4, 'a');
--> 6|6|6|6|6
select user_id, status, payment_ref from voucher_order order by user_id;
--> 1|paid|a
--> 2|unpaid|
--> 3|unpaid|
--> 4|paid|p
--> 5|cancelled|
select pay(101, 1, 'a'), pay(101, 1, 'a', 99), redeem(101, 1), pay(101, 1, 'a'), pay(101, 2, 'a'),
       pay(101, 2, 'b');
--> 2|4|1|2|6|1
select verdict from pay_order(101, 999, 'payment:1', 'a', 100);
--> 5

-- test_pay_order__after_a_refund
select new_voucher(10, 1), place(101, '{1,2}');
select pay(101, 1, 'r'), refund(101, 1), pay(101, 1, 'r'), pay(101, 1, 'r', 99), pay(101, 1, 's'),
       pay(101, 2, 'r');
--> 1|1|3|3|3|6
select user_id, status, payment_ref from voucher_order order by user_id;
--> 1|refunded|r
--> 2|unpaid|

-- test_pay_order__a_refused_payment_can_pay_another_order
select new_voucher(10, 1), place(101, '{1,2}');
select cancel(101, 1), pay(101, 1, 'free'), pay(101, 2, 'free', 99), pay(101, 2, 'free');
--> 1|3|4|1

-- test_pay_order__several_in_one_statement
select new_voucher(10, 1), place(101, '{1,2,3}');
select user_id, ref, verdict
from unnest('{1,2,1,3}'::bigint[], '{x,x,x,y}'::text[]) with ordinality r (user_id, ref, pos)
cross join lateral pay_order(101, order_of(101, user_id), 'payment:1', ref, 100) order by pos;
--> 1|x|1
--> 2|x|6
--> 1|x|2
--> 3|y|1

-- test_pay_order__one_of_two_sessions_wins
select new_voucher(10, 1), new_voucher(10, 1), place(101, '{1,2}'), place(102, '{3,4}');
begin;
select pay(101, 1, 'raced');
--> 1
b: select pay(102, 3, 'raced');
--> waits
commit;
b:
--> 6
begin;
select pay(101, 2, 'failed');
--> 1
b: select pay(102, 4, 'failed');
--> waits
rollback;
b:
--> 1
select user_id, status, payment_ref from voucher_order order by user_id;
--> 1|paid|raced
--> 2|unpaid|
--> 3|unpaid|
--> 4|paid|failed

-- -- archive --

-- Each voucher gets orders of shoppers 1 to 5: paid, refunded, redeemed, cancelled and unpaid.
-- test_archive_vouchers__moves_ended_ones_only
create schema archive;
create function pg_temp.use_voucher() returns void language sql as $$
    select v, place(v, '{1,2,3,4,5}', '{1,2,3,4,5}'), pay(v, 1, v || ' 1'), pay(v, 2, v || ' 2'),
           pay(v, 3, v || ' 3'),
           refund(v, 2), redeem(v, 3), cancel(v, 4)
    from new_voucher(100, 1) v;
$$;
select pg_temp.use_voucher(), pg_temp.use_voucher();
select archive_vouchers(102, 'archive');
--> ERROR P0001: voucher 101 is on sale or has an unpaid order
update voucher set end_at = now() where id = 101;
select archive_vouchers(102, 'archive');
--> ERROR P0001: voucher 101 is on sale or has an unpaid order
b: begin;
b: select from voucher where id = 102 for update;
set lock_timeout = '60s';
select cancel(101, 5), archive_vouchers(102, 'archive');
--> 1|1
b: rollback;
select count(*) from voucher_history where voucher_id = 101;
--> 0
select string_agg(payment_ref, ' ' order by payment_ref) filter (where is_archived),
       count(*) filter (where not is_archived) from payment;
--> 101 1 101 2 101 3|3
select stock_left, (select count(*) from archive.voucher_order),
       (select count(*) from archive.order_event),
       (select count(*) from archive.stock_event) from archive.voucher;
--> 98|5|7|1
select count(*), archive_vouchers(102, 'archive') from voucher_order;
--> 5|0
select pay(102, 5, '101 1'), pay(102, 5, 'new 5'), refund(102, 1), verdict
from refund_order(101, 1, 'admin:1');
--> 6|1|1|5
select place(102, '{1,5,6}', '{11,15,16}'), place(101, '{1}', '{21}');
--> 1 3 1|8
begin;
update voucher set end_at = now();
-- The archive may come from an older release, which did not have these columns.
alter table archive.voucher_order drop column follows;
alter table archive.stock_event drop column detail;
select cancel(102, 1), cancel(102, 6), archive_vouchers(103, 'archive');
--> 1|1|1
commit;
select count(*), (select string_agg(table_name || '.' || column_name, ' ' order by table_name)
                  from information_schema.columns where table_schema = 'archive'
                  and (table_name, column_name) in (('voucher_order', 'follows'), ('stock_event', 'detail')))
from archive.voucher;
--> 2|stock_event.detail voucher_order.follows
drop schema archive cascade;

-- -- the role of the service --

-- test_service_role__writes_through_the_functions_only
select new_voucher(5, 1), place(101, '{1}');
s: create function pg_temp.error_of(p_sql text) returns text language plpgsql as $$
begin
    execute p_sql;
    return '';
exception when others then
    return sqlstate;
end $$;
s: select name, pg_temp.error_of('select * from ' || name),
          (select array_agg(distinct pg_temp.error_of(format(sql, name)))
           from unnest(array['insert into %1$s table %1$s', 'delete from %s', 'truncate %s',
                             'select from %s for update',
                             'alter table %s add x integer', 'drop table %s']) sql)
   from unnest('{voucher,voucher_order,order_event,stock_event}'::text[]) name;
--> voucher||{42501}
--> voucher_order||{42501}
--> order_event||{42501}
--> stock_event||{42501}
s: select distinct pg_temp.error_of(sql)
   from unnest(array['update voucher set id = id', 'update voucher_order set id = id',
                     'update order_event set id = id', 'update stock_event set id = id',
                     'select next_event_id(1)', 'select hold_order(1, 1)',
                     'select move_order(1, 1, ''paid'', ''unpaid'', ''x'')',
                     'select move_orders(1, ''{1}'', ''unpaid'', ''paid'', now(), ''x'')',
                     'select place_in_free_slot(null, now(), 1, 1, null)',
                     'select nextval(''voucher_order_id_seq'')',
                     'insert into payment values (''x'', 1)', 'update payment set order_id = 1',
                     'delete from payment', 'truncate payment',
                     'create table mine (x integer)']) sql;
--> 42501

-- grant_service() is called again for the roles that may place orders. The right of public does not
-- count, and neither does a function of another schema.
-- test_grants__are_renewed_for_roles_that_may_place_orders
select prepare('grants');
begin;
grant execute on function next_voucher_id() to pg_monitor;
grant execute on function place_many to public;
grant execute on function place_orders to public;
create function given.place_orders() returns void language sql as '';
grant execute on function given.place_orders() to pg_monitor;
execute grants(null);
--> select grant_service('seckill_service')
rollback;

-- test_beat__writes_every_few_seconds_and_waits_for_no_disk
update cell set alive_at = now() - interval '5 s';
begin;
select beat(), current_setting('synchronous_commit') = 'off';
--> 0|t
select alive_at > now() - interval '1 s' from cell;
--> t
commit;
begin;
select beat(), current_setting('synchronous_commit') = 'off';
--> 0|f
commit;

-- test_functions__are_not_for_public
select string_agg(proname, ' ' order by proname) from pg_proc
where pronamespace = current_schema::regnamespace
  and not has_function_privilege('public', oid, 'execute')
group by proname > 'next' order by 1;
--> add_webhook advance_feed advance_ids archive_vouchers beat cancel_order change_order change_webhook create_voucher create_voucher_once draw_lotteries erase_ended erase_user ...
--> next_voucher_id note_webhook patch_voucher pay_order place_many place_orders read_entry redeem_order refund_order remove_webhook ...

select count(*) from pg_proc
where pronamespace = current_schema::regnamespace
  and prosecdef and has_function_privilege('public', oid, 'execute');
--> 0

-- test_grant_service__grants_no_function_of_another_schema
create function given.beat() returns void language sql as '';
revoke execute on function given.beat() from public;
select grant_service('seckill_service');
select has_function_privilege('seckill_service', f, 'execute')
from unnest('{given.beat(),next_voucher_id()}'::regprocedure[]) f;
--> f
--> t
drop function given.beat();

-- A temporary table of the caller must not replace the real table.
-- test_service_role__cannot_replace_tables_of_the_functions
select new_voucher(5, 1);
s: create temp table voucher as select * from voucher;
s: select (restock_voucher(101, 4, 'x')).stock_left;
--> 9
select stock_left from voucher;
--> 9
