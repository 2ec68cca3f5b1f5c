-- race.sql - sessions that write at the same time.

-- test_place_orders__sessions_share_one_stock
create function given.buy(p_vouchers bigint[], p_shoppers integer) returns void language sql as $$
    select place(p_vouchers[1 + (random() * (cardinality(p_vouchers) - 1))::integer],
                 array(select 1 + (random() * (p_shoppers - 1))::bigint
                       from generate_series(1, 40)), null,
                 array(select case when random() < 0.5 then 'k' || (random() * 2)::integer end
                       from generate_series(1, 40)))
$$;
select new_voucher(700, 2), new_voucher(100000, 3), new_voucher(200, 1), new_voucher(200, 1),
       new_voucher(200, 1);
4x60: select buy('{101}', 2000);
4x60: select buy('{102}', 50);
4x60: select buy('{103,104,105}', 1000);
select voucher_id, count(*) from voucher_order where slot is not null group by 1 order by 1;
--> 101|700
--> 102|150
--> 103|200
--> 104|200
--> 105|200

-- test_place_many__sessions_wait_for_each_other
create function given.buy_each() returns void language plpgsql as $$
declare
    v_shopper bigint := nextval('call_number') % 60 + 1;
begin
    perform from (select array_agg(100 + n order by random()) as v from generate_series(1, 3) n) a,
                 place_many(v, '{1,2,3}', '{1,2,3}', array_fill(v_shopper, '{3}'), '{0,0,0}', null)
    where verdicts = '{1}' having count(*) = 3;
    if not found then
        raise exception 'a voucher was left out';
    end if;
end $$;
select new_voucher(1000, 4), new_voucher(1000, 4), new_voucher(1000, 4);
4x60: select buy_each();
select id, stock_left from voucher order by id;
--> 101|760
--> 102|760
--> 103|760

-- 20 sessions cancel each order, and 20 sessions pay it. Another session lets the payment deadline
-- of the order pass, and yet another session expires the order. A payment that is too late expires
-- the order, too. Exactly one change of each order must win.
-- test_life__cancellations_payments_and_the_expiry
create table given.won (user_id bigint, call text);
create function given.end_order() returns void language plpgsql as $$
declare
    v_call bigint := nextval('call_number');
    v_shopper bigint := v_call / 42 + 1;
begin
    if v_call % 42 = 0 then
        update voucher_order set expires_at = clock_timestamp() where user_id = v_shopper;
    elsif v_call % 42 = 1 and expire(101, v_shopper) = 1 then
        insert into won values (v_shopper, 'expired');
    elsif v_call % 42 > 1 and v_call % 2 = 0 and cancel(101, v_shopper) = 1 then
        insert into won values (v_shopper, 'cancelled');
    elsif v_call % 42 > 1 and v_call % 2 = 1 and pay(101, v_shopper, 'ref ' || v_call) = 1 then
        insert into won values (v_shopper, 'paid');
    end if;
end $$;
select new_voucher(25, 1), place(101, array(select generate_series(1::bigint, 25)));
42x25: select end_order();
select user_id, call, status, (select count(*) from order_event where order_id = o.id)
from voucher_order o left join won using (user_id)
where coalesce(call, 'expired') <> status::text
   or (select count(*) from order_event where order_id = o.id) <> 1;
--> (none)

-- Six sessions write for different times, and roll some of their changes back. A seventh session
-- reads the events after its cursor, page by page. Each writer calls two functions that lock the
-- voucher, in either sequence.
-- test_history__a_follower_misses_nothing
create table given.follower as select 0::bigint as cursor, 0::bigint as seen;
create function given.follow() returns void language plpgsql as $$
declare
    v_last bigint;
    v_count bigint;
begin
    loop
        select max(id), count(*) into v_last, v_count
        from (select h.id from voucher_history h, follower where h.id > cursor
              order by h.id limit 3) page;
        exit when v_count = 0;
        update follower set cursor = v_last, seen = seen + v_count;
    end loop;
end $$;
create function given.write_history(p_call bigint) returns void language plpgsql as $$
begin
    if p_call % 2 = 0 then
        perform restock_voucher(101, 1);
    end if;
    perform place(101, array[p_call]), pg_sleep(p_call * 7 % 5 / 1000.0);
    if p_call % 2 = 1 then
        perform restock_voucher(101, 1);
    end if;
    perform cancel(101, p_call);
    if p_call % 5 = 0 then
        raise exception 'rolled back';
    end if;
exception when raise_exception then
end $$;
create function given.write_or_follow(p_call bigint) returns void language sql as $$
    select case when p_call % 7 = 0 then follow() else write_history(p_call) end
$$;
select new_voucher(1000, 1);
7x40: select write_or_follow(nextval('call_number'));
select follow();
select cursor = max(h.id), seen = count(*), seen > 500 from voucher_history h, follower
group by cursor, seen;
--> t|t|t
