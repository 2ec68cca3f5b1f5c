-- feed.sql - the feed of all vouchers: its order, its pages, and transactions that commit late.
--
-- In the feed each change has a number. The changes of one batch of orders also share a number
-- `first`, which is the number of the batch's first order.

-- Returns the changes that come after a position of the feed. Each change is "NUMBER+" if it
-- changes stock, or "NUMBER=STATUS". If the change shares the number of a batch, "FIRST." precedes
-- its own number. 1000 is subtracted from all numbers.
-- test_feed_events__are_in_one_order
create function given.feed(p_first bigint, p_number bigint, p_limit bigint default 100,
                           p_until bigint default 9999) returns text language sql as $$
    select string_agg(case when first = id >> 20 then '' else first - 1000 || '.' end || ((id >> 20) - 1000)
                      || coalesce('=' || to_status, '+'), ' ')
    from feed_events(p_first, p_number, p_until, p_limit)
$$;
select new_voucher(50, 1), new_voucher(50, 1), place(102, '{1}'), place(101, '{1,2}'), place(102, '{2}');
select pay(101, 1);
select restock_voucher(102, 5);
select refund(101, 1);
select feed(0, 0);
--> 1+ 2+ 3=unpaid 4=unpaid 5=unpaid 6=unpaid 7=paid 8+ 9=refunded
select feed(1004, 1004), feed(0, 0, 2), feed(1008, 1008, 1), feed(1009, 1009), feed(0, 0, 100, 1003), feed(1003, 1003, 100, 1007);
--> 5=unpaid 6=unpaid 7=paid 8+ 9=refunded|1+ 2+|9=refunded||1+ 2+ 3=unpaid|4=unpaid 5=unpaid 6=unpaid 7=paid
select id >> 20, f.voucher_id, order_id >> 20, stock_change, actor, from_status, to_status, detail, first
from feed_events(1006, 1006, 1008, 9) f;
--> 1007|101|1004|0|payment:1|unpaid|paid|ref 1|1007
--> 1008|102||5|admin||||1008

-- Only the first order of a large batch is in the index of the feed. A page may begin or end within
-- the batch.
-- test_feed_events__continues_within_a_batch
select new_voucher(50, 1), place(101, array(select generate_series(1::bigint, 20)));
select pay(101, 3);
select place(101, '{21}');
select count(*) filter (where follows), count(*) filter (where follows is null) from voucher_order;
--> 19|2
select feed(0, 0, 4), feed(1002, 1004, 2), feed(1002, 1019, 4), feed(1002, 1021, 9), feed(1002, 1020, 1);
--> 1+ 2=unpaid 2.3=unpaid 2.4=unpaid|2.5=unpaid 2.6=unpaid|2.20=unpaid 2.21=unpaid 22=paid 23=unpaid|22=paid 23=unpaid|2.21=unpaid
select feed(1001, 1001, 100, 1001), feed(1002, 1021, 9, 1010), feed(1002, 1019, 9, 1010);
-->||2.20=unpaid 2.21=unpaid

-- A step of a reader has two transactions, because advance_feed() refuses a transaction that has an
-- id. advance() asks how far the feed can be read, and read_page() reads a page of three changes.
create table given.reader (name text primary key, number bigint default 0, xid bigint default 0, until bigint default 0,
                           first bigint default 0, last bigint default 0, seen text[] default '{}');
create function given.advance(p_reader text) returns bigint language plpgsql as $$
declare
    a record;
begin
    select f.* into a from reader r, advance_feed(r.number, r.xid, r.until) f where name = p_reader;
    update reader r set number = a.last_number, xid = coalesce(a.xid, 0), until = a.until where name = p_reader;
    return greatest(a.until - 1000, 0);
end $$;
create function given.read_page(p_reader text) returns bigint language plpgsql as $$
declare
    r reader;
    e record;
    v_count bigint := 0;
begin
    select * into r from reader where name = p_reader for update;
    for e in select * from feed_events(r.first, r.last, r.until, 3) loop
        v_count := v_count + 1;
        r.first := e.first;
        r.last := e.id >> 20;
        r.seen := r.seen || (e.first || '.' || e.id);
    end loop;
    update reader set first = r.first, last = r.last, seen = r.seen where name = p_reader;
    return v_count;
end $$;
create function given.read_all(p_reader text) returns bigint language plpgsql as $$
begin
    while read_page(p_reader) > 0 loop
    end loop;
    return 0;
end $$;

-- The transaction of session b takes the numbers 1003 and 1004. Session c takes 1005, and commits
-- before b.
-- test_advance_feed__waits_for_a_transaction_that_commits_late
truncate reader;
insert into reader values ('a');
select new_voucher(50, 1), new_voucher(50, 1);
select advance('a');
--> 0
select advance('a');
--> 2
b: begin;
b: select place(101, '{1,2}');
c: select place(102, '{3}');
select advance('a'), feed(0, 0, 9, 1000 + 2);
--> 2|1+ 2+
select advance('a');
--> 2
c: select place(102, '{4}');
select advance('a');
--> 2
b: commit;
select advance('a');
--> 5
select advance('a');
--> 6
select feed(1002, 1002, 9, 1006);
--> 3=unpaid 4=unpaid 5=unpaid 6=unpaid

-- test_advance_feed__passes_the_numbers_of_a_transaction_that_is_rolled_back
truncate reader;
insert into reader values ('a');
select new_voucher(50, 1), new_voucher(50, 1);
b: begin;
b: select place(101, '{1,2}');
c: select place(102, '{3}');
select advance('a');
--> 0
select advance('a');
--> 0
b: rollback;
select advance('a');
--> 5
select feed(0, 0, 9, 1005), advance_feed(1005, 0, 1005), advance_feed(0, 0, 1005);
--> 1+ 2+ 5=unpaid|(1005,1005,)|(1005,1005,)
begin;
select pg_current_xact_id() is not null;
select advance_feed(0, 0, 0);
--> ERROR P0001: the transaction has an id already...
rollback;

-- Eight sessions write to three vouchers, hold their transactions for different times, and roll
-- some of them back. At the same time two other sessions read. Each reader must see all changes
-- once, and the two readers must see them in the same sequence.
-- test_feed__readers_see_each_change_once_and_in_one_order
create function given.write_feed(p_voucher bigint, p_shopper bigint, p_count bigint) returns void
language plpgsql as $$
begin
    perform place(p_voucher, array(select p_shopper + n from generate_series(1, p_count) n));
    perform pg_sleep(random() * 0.05);
    perform pay(p_voucher, p_shopper + 1), restock_voucher(p_voucher, 1);
end $$;
create procedure given.take_part(p_call bigint) language plpgsql as $$
declare
    v_reader text := case p_call % 10 when 0 then 'x' when 1 then 'y' end;
begin
    perform set_config('synchronous_commit', 'off', false);
    commit; -- nextval() gave the transaction an id
    for i in 1 .. case when v_reader is null then 10 else 100 end loop
        if v_reader is not null then
            perform advance(v_reader);
            commit;
            perform read_page(v_reader), pg_sleep(0.001);
            commit;
        else
            perform write_feed(101 + i % 3, p_call * 10000 + i * 100, 1 + (p_call + i) % 2 * 19);
            if random() < 0.3 then
                rollback;
            else
                commit;
            end if;
        end if;
    end loop;
end $$;
truncate reader;
insert into reader values ('x'), ('y');
select new_voucher(100000, 1), new_voucher(100000, 1), new_voucher(100000, 1);
10x4: call take_part(nextval('call_number'));
select advance('x');
select advance('x');
select advance('y');
select advance('y');
select read_all('x'), read_all('y');
--> 0|0
select x.seen = y.seen, cardinality(x.seen) = (select count(*) from voucher_history), cardinality(x.seen) > 1000,
       x.seen = array(select s from unnest(x.seen) s
                      order by split_part(s, '.', 1)::bigint, split_part(s, '.', 2)::bigint)
from reader x, reader y where x.name = 'x' and y.name = 'y';
--> t|t|t|t
