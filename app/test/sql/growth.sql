-- growth.sql - calls must not read more pages when there are a million orders, or many ended orders
-- of one shopper.
--
-- The session has planned the calls while the tables were empty. A plan that scans a table would
-- read hundreds of times more pages.

-- test_place_orders__costs_the_same_after_a_million_orders
-- Empty tables without later statistics are the worst case for the planner.
alter table voucher_order set (autovacuum_enabled = off);
alter table voucher set (autovacuum_enabled = off);
analyze voucher, voucher_order;
create function pg_temp.shoppers(p_first bigint, p_count bigint) returns bigint[] language sql as $$
    select array_agg(1 + (p_first + n) * 1000003 % 16777213) from generate_series(0, p_count - 1) n
$$;
create function pg_temp.sell(p_batch bigint) returns bigint language sql as $$
    select cardinality(array_positions(verdicts, 1::smallint))
    from pg_temp.shoppers(p_batch * 1000, 1000) u,
         place_orders(101, u, array_fill(p_batch, '{1000}'),
                      case when p_batch % 2 = 0 then array(select 'k' || n from unnest(u) n) end)
$$;
-- Repeats orders of the first shoppers: 20 with the key of their order, and 20 without a key.
create function pg_temp.repeat_orders() returns text language sql as $$
    select concat_ws(' ', place(101, u[1:20], null, array(select 'k' || n from unnest(u[1:20]) n)),
                     place(101, u[21:40]))
    from pg_temp.shoppers(0, 40) u
$$;
create function pg_temp.look_up() returns bigint language sql as $$
    select sum(verdict)
    from find_orders(101, array(select generate_series(100000001, 100000040::bigint)),
                     array_fill('k'::text, '{40}'))
$$;
create function pg_temp.change(p_sample bigint) returns text language sql as $$
    select concat_ws(' ', pay(101, u[1]), refund(101, u[1]), cancel(101, u[2]),
                     expire_orders(101, array(select order_of(101, n) from unnest(u) n)))
    from pg_temp.shoppers(p_sample * 100, 100) u
$$;
create temp table sample (is_grown boolean, call text, pages bigint);
create function pg_temp.measure(p_is_grown boolean, p_batch integer) returns void language sql as $$
    insert into sample
    select p_is_grown, call,
           pages_of(format('pg_temp.' || call, p_batch + i, 10 * p_batch + i + 1), result)
    from generate_series(0, 29) i,
         (values ('sell(%s)', '1000'),
                 ('repeat_orders()', rtrim(repeat('2 ', 20) || repeat('3 ', 20))),
                 ('look_up()', '0'),
                 ('change(%2$s)', '1 1 1 0')) calls (call, result)
$$;
select new_voucher(100000000, 1);
select pg_temp.measure(false, 0);
select count(pg_temp.sell(n)) from generate_series(30, 999) n;
select pg_temp.measure(true, 1000);
select call, percentile_disc(0.5) within group (order by pages) filter (where is_grown)
             <= 5 * percentile_disc(0.5) within group (order by pages) filter (where not is_grown)
from sample group by call order by call;
--> change(%2$s)|t
--> look_up()|t
--> repeat_orders()|t
--> sell(%s)|t
-- The test empties the tables, because an audit of all orders would take long.
select begin_test();

-- test_place_orders__costs_the_same_with_ended_orders
create temp sequence fence start 1000000;
-- Shopper 1 places an order and cancels it. A second request has the fence of an ended order, and
-- is refused. Then the service looks up an order that was not placed.
create function pg_temp.order_again(p_voucher bigint) returns text language sql as $$
    select place(p_voucher, '{1}', array[nextval('fence')]) || cancel(p_voucher, 1)
           || place(p_voucher, '{1}', '{1}')
           || (select verdict from resolve_orders(p_voucher, '{1}', '{9999999}', '{null}'))
$$;
create temp table sample (voucher bigint, ended bigint, pages bigint);
create function pg_temp.measure() returns void language sql as $$
    insert into sample
    select v.id, (select count(*) from voucher_order where voucher_id = v.id and fence < 500000),
           pages_of(format('pg_temp.order_again(%s)', v.id), '1170')
    from voucher v, generate_series(1, 30)
$$;
create function pg_temp.add_ended(p_from integer, p_to integer) returns void language sql as $$
    insert into voucher_order (voucher_id, id, user_id, fence, price_cents, created_at, expires_at,
                               status)
    select v.id, next_event_id(v.id), 1, n, 100, now(), now() + interval '900 s', 'cancelled'
    from voucher v, generate_series(p_from, p_to) n
$$;
select new_voucher(100000000, 1), new_voucher(100000000, 2), place(102, '{1}', '{500000}');
select pg_temp.measure();
select pg_temp.add_ended(1, 100000), pg_temp.measure();
select pg_temp.add_ended(100001, 400000), pg_temp.measure();
select voucher, ended, pages <= 5 * first_value(pages) over (partition by voucher order by ended)
from (select voucher, ended, percentile_disc(0.5) within group (order by pages) as pages
      from sample group by 1, 2) medians
order by 1, 2;
--> 101|0|t
--> 101|100000|t
--> 101|400000|t
--> 102|0|t
--> 102|100000|t
--> 102|400000|t
select begin_test();

-- The orders of a new sale may change only the pages of their segment. The first change of a page
-- after a checkpoint writes the whole page to the WAL, as a full page image (FPI).
-- test_place_orders__changes_few_pages_beside_many_old_orders
create function pg_temp.sell(p_voucher bigint, p_batch bigint) returns text language sql as $$
    select place(p_voucher, array(select (p_batch * 100 + i) * 618033 % 200000 + 1
                                  from generate_series(0, 99) i))
$$;
create function pg_temp.first_changes() returns integer language plpgsql as $$
declare
    v_plan json;
begin
    execute 'explain (analyze, wal, format json)'
            ' select pg_temp.sell(65536, n) from generate_series(0, 9) n' into v_plan;
    return v_plan -> 0 -> 'Plan' ->> 'WAL FPI';
end $$;
select new_next_voucher(0);
select count(pg_temp.sell(101, n)) from generate_series(0, 1999) n;
select new_next_voucher(262144);
--> 65536
r: checkpoint;
select pg_temp.first_changes() between 1 and 50;
--> t
select count(*) from voucher_order where voucher_id = 65536;
--> 1000
