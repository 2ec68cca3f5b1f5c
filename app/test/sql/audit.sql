-- audit.sql - the audit finds each kind of broken row, and nothing else.

-- test_audit__accepts_times_of_a_clock_that_was_set_back
-- The clock may be set back by more than the life of an order. Then later rows have earlier times,
-- but their ids and states are right.
select new_voucher(10, 2), place(101, '{1,2,3}'), pay(101, 1), cancel(101, 2);
update voucher set created_at = created_at + interval '1 day';
update voucher_order set paid_at = paid_at - interval '2 days';
update order_event set at = at - interval '2 days';

-- Shoppers 1 to 3 have orders of voucher 101, with keys and the fences 1 to 3. The orders of
-- voucher 102 are in all states. drop_guards() removes the constraints, so that the test can write
-- rows that only a corrupt index or a person could write.
-- test_audit__finds_what_is_planted
create function pg_temp.broken() returns table (broken_check text, broken_row text)
language plpgsql as $$
declare
    v_bytes text;
begin
    for broken_check, v_bytes in select name, bytes from query where folder = 'audit' loop
        for broken_row in execute v_bytes loop
            return next;
        end loop;
    end loop;
end $$;
create function pg_temp.drop_guards() returns void language plpgsql as $$
declare
    v_statement text;
begin
    for v_statement in
        select format('alter %s %s drop constraint %I',
                      case when conrelid <> 0 then 'table' else 'domain' end,
                      case when conrelid <> 0 then conrelid::regclass::text
                           else contypid::regtype::text end, conname)
        from pg_constraint
        where connamespace = current_schema::regnamespace
          and (contypid <> 0 or contype in ('c', 'p'))
    loop
        execute v_statement;
    end loop;
    drop index voucher_order_slot, voucher_order_key;
end $$;
-- Executes a statement, runs the audit, and rolls the statement back. Returns null if the check
-- p_check finds a row that contains p_says. Otherwise returns everything that the audit finds.
create function pg_temp.missed(p_statement text, p_check text, p_says text) returns text
language plpgsql as $$
declare
    v_found text;
begin
    execute p_statement;
    select string_agg(broken_check || ': ' || broken_row, chr(10)) into v_found
    from pg_temp.broken()
    having bool_or(broken_check = p_check and broken_row like '%' || p_says || '%') is not true;
    if found then
        return coalesce(v_found, 'nothing');
    end if;
    raise exception 'found';
exception when raise_exception then
    return null;
end $$;
-- Two shoppers enter a lottery, and one wins.
create function pg_temp.drawn_lottery() returns boolean language plpgsql as $$
declare
    v_id bigint := new_lottery(1);
begin
    perform place(v_id, '{1,2}');
    perform close(v_id);
    return draw(1);
end $$;
create temp table planted (statement text, by_check text, says text);
insert into planted values
    ('update voucher set stock_left = stock_left + 1', 'no_oversell', 'live orders 3'),
    ('update voucher set stock_left = -1, stock_total = 2', 'no_oversell', 'stock_left -1'),
    ('delete from voucher_order where user_id = 1', 'no_oversell', 'live orders 2'),
    ('insert into voucher_order select voucher_id, id + 1048576 * n, user_id, null, price_cents,
      created_at, expires_at, null, ''unpaid'', n + 1 from voucher_order, generate_series(1, 2) n
      where user_id = 1',
     'no_duplicate', 'shopper 1 has 3 live orders'),
    ('update voucher set per_user_limit = 0', 'voucher_bounds', ''),
    ('update voucher set id = 8796093022208', 'voucher_bounds', 'voucher 8796093022208'),
    ('update voucher_order set slot = null where user_id = 2', 'order_slots', 'slot none'),
    ('update voucher_order set slot = 3 where user_id = 2', 'order_slots', 'slot 3'),
    ('update voucher_order set status = ''expired'' where user_id = 2', 'order_slots',
     'is expired'),
    ('insert into voucher_order select voucher_id, id + 1048576 * 9, user_id, null, price_cents,
      created_at, expires_at, null, ''unpaid'', 1 from voucher_order where user_id = 1',
     'unique_slots', 'slot 1 with 2 orders'),
    ('insert into voucher_order select voucher_id, id + 1048576 * 9, user_id, null, price_cents,
      created_at, expires_at, null, ''expired'', null, null, request_key from voucher_order
      where user_id = 1',
     'unique_keys', 'key "a" of shopper 1 made 2 orders'),
    ('update voucher_order set id = id + 1 where user_id = 1', 'order_ids', ''),
    ('update voucher_order set id = (select min(id) from voucher_order)', 'order_ids',
     'occurs 11 times'),
    ('update voucher_order set voucher_id = voucher_id + 1048576 where user_id = 1',
     'order_vouchers', 'there is no voucher'),
    ('update cell set cells = 1024, number = 777', 'voucher_cells',
     'this database has cells 777/1024'),
    ('delete from voucher', 'order_vouchers', 'there is no voucher'),
    ('update voucher_order set expires_at = created_at', 'order_times', ''),
    ('update voucher_order set status = ''paid''', 'order_times', 'paid never'),
    ('update voucher_order set paid_at = now()', 'order_times', ''),
    ('update voucher_order set due_to_id = null', 'due_batches', 'no batch includes it'),
    ('update voucher_order set due_to_id = id - 1', 'due_batches', ''),
    ('update voucher_order set user_id = 0 where user_id = 1', 'order_bounds', 'user_id 0'),
    ('update voucher_order set price_cents = -1 where user_id = 1', 'order_bounds',
     'price_cents -1'),
    ('update voucher_order set fence = 0 where user_id = 1', 'order_bounds', 'fence 0'),
    ('update voucher_order set request_key = '''' where user_id = 1', 'order_bounds',
     'request_key ""'),
    ('update voucher set ended_fence = 14', 'ended_fence', 'has fence 15'),
    ('update voucher_order set slot = 2 where fence = 1', 'ended_fence',
     'ended_fence is 0, shopper 1 has fence 1'),
    ('update order_event set to_status = ''expired'' where to_status = ''cancelled''',
     'history_status', 'is cancelled, its history ends expired'),
    ('delete from order_event where to_status = ''redeemed''', 'history_status',
     'is redeemed, its history ends paid'),
    ('delete from order_event where to_status = ''paid''', 'history_steps',
     'paid -> refunded, before it was unpaid'),
    ('update order_event set from_status = ''paid'' where to_status = ''cancelled''',
     'history_steps', 'paid -> cancelled, before it was unpaid'),
    ('insert into order_event select voucher_id, id + 1048576 * 99, id, now(), ''x'', ''unpaid'',
      ''redeemed'' from voucher_order where fence = 1',
     'history_steps', 'unpaid -> redeemed'),
    ('update order_event set detail = ''y'' where to_status = ''paid''', 'history_payments',
     'its history says'),
    ('update voucher_order set payment_ref = null', 'history_payments', ''),
    ('update order_event set at = at + interval ''1 s'' where to_status = ''paid''',
     'history_payments', ''),
    ('update order_event set id = id - 1048576 * 99', 'history_orders', ''),
    ('update order_event set order_id = order_id + 1048576 * 999', 'history_orders',
     'no such order before it'),
    ('delete from payment where payment_ref = (select max(payment_ref) from payment)',
     'payments', 'belongs to order none'),
    ('update payment set order_id = order_id + 1048576', 'payments', ''),
    ('insert into payment values (''x'', 1)', 'payments', '"x": paid no order, belongs to order 1'),
    ('update voucher_order set payment_ref = ''x'' where payment_ref is not null', 'payments',
     '"x": paid orders'),
    ('update payment set is_archived = true', 'payments', 'belongs to order'),
    ('delete from stock_event', 'history_stock', 'its history gives'),
    ('update stock_event set stock_change = stock_change - 1 where stock_change > 0',
     'history_stock', ''),
    ('insert into stock_event select id + 1048576, id + 1048576, now(), ''x'', 1 from voucher',
     'history_stock', ''),
    ('update voucher set title = ''first''', 'history_edits',
     'voucher 102: its last edits have set {"title": "second", "pay_within_s": 60}'),
    ('update order_event set id = id + 1', 'history_ids', 'occurs 1 times'),
    ('update stock_event set id = (select min(id) from voucher_order o
      where o.voucher_id = stock_event.voucher_id) where stock_change > 0',
     'history_ids', 'occurs 2 times'),
    ('update voucher set price_cents = -1', 'voucher_bounds', 'price_cents -1'),
    ('update voucher set end_at = begin_at', 'voucher_bounds', ''),
    ('update voucher set title = ''''', 'voucher_bounds', ''),
    ('update voucher set pay_within_s = 0', 'voucher_bounds', 'pay_within_s 0'),
    ('insert into used_key values (0, ''x'', ''k'', ''r'')', 'used_keys',
     'voucher 0: key "k" of x has created nothing'),
    ('insert into used_key values (102, ''x'', ''k'', ''r'', 102)', 'used_keys', 'created 102'),
    ('insert into webhook (url, secret, first, number)
      values (''http://x'', ''whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'', 2, 1)', 'webhooks', 'position 2_1, error none'),
    ('insert into webhook (url, secret, first, number, error)
      values (''http://x'', ''whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'', 1, 1, ''e'')', 'webhooks', 'error e'),
    ('insert into webhook (url, secret, first, number, failing_since)
      values (''http://x'', ''whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'', 1, 1, now())', 'webhooks', 'error none'),
    ('insert into webhook (url, secret, first, number, disabled_at)
      values (''http://x'', ''whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'', 1, 1, now())', 'webhooks', 'error none'),
    ('select pg_temp.drawn_lottery(); update voucher set seed = ''x'' where seed is not null', 'lottery_ranks',
     'the seed does not fit the commitment'),
    ('select pg_temp.drawn_lottery(); update voucher set commitment = null', 'lottery_ranks',
     'the seed does not fit the commitment'),
    ('select pg_temp.drawn_lottery(); update lottery_entry set user_id = 3 where user_id = 2', 'lottery_ranks',
     'the entry of shopper 3 has a wrong rank'),
    ('select pg_temp.drawn_lottery(); update voucher_order set user_id = 3 - user_id where fence is null',
     'lottery_winners', 'has not won, and 1 orders'),
    ('select pg_temp.drawn_lottery(); update voucher_order set user_id = 3 where fence is null', 'lottery_winners',
     'shopper 3 has not entered, and 1 orders'),
    ('select pg_temp.drawn_lottery(); update voucher_order set user_id = 3 where fence is null', 'lottery_winners',
     'has won, and 0 orders');
select name from query where folder = 'audit' except select by_check from planted;
--> (none)
select new_voucher(10, 2), new_voucher(10, 2);
select place(101, '{1,2,3}', '{1,2,3}', '{a,b,c}'), place(102, '{1,2,3,4,5}', '{11,12,13,14,15}');
select cancel(102, 1), pay(102, 2), pay(102, 3), pay(102, 4), refund(102, 2), redeem(102, 3),
       make_due(102, 5), expire(102, 5);
select restock_voucher(102, -2);
select patch_voucher(102, 'first', null, null, null, 60), patch_voucher(102, 'second', null, null, null, null);
select place(102, '{1,2,5}', '{21,22,23}');
select status from voucher_order where voucher_id = 102 order by id;
--> cancelled
--> refunded
--> redeemed
--> paid
--> expired
--> unpaid
--> unpaid
--> unpaid
begin;
select pg_temp.drop_guards();
select * from pg_temp.broken();
--> (none)
select statement, found from planted, pg_temp.missed(statement, by_check, says) found
where found is not null;
--> (none)
rollback;
begin;
select give_half(1, 2);
select * from pg_temp.broken();
--> (none)
rollback;
-- An aggregate has the orders of all cells, and no rows of the tables payment and lottery_entry.
begin;
insert into cell values (-1, 1);
select pg_temp.drawn_lottery();
delete from payment;
delete from lottery_entry;
select * from pg_temp.broken();
--> (none)
select place(102, '{7,8}', '{31,32}'), pay(102, 7), pay(102, 8);
delete from payment;
select * from pg_temp.broken();
--> (none)
update order_event set detail = 'x' where detail in ('ref 7', 'ref 8');
update voucher_order set payment_ref = 'x' where payment_ref in ('ref 7', 'ref 8');
select broken_check, broken_row from pg_temp.broken();
--> payments|payment_ref "x": paid orders ...
rollback;
