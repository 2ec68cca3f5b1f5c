-- given.sql - functions for the scripts, in a schema of their own.
--
-- Vouchers have the ids 101, 102, and so on, in the order of their creation. The verdicts of
-- place_orders(): 1 placed, 2 repeated key, 3 already ordered, 4 sold out, 5 not started, 6 ended,
-- 7 stale fence, 8 no voucher, 9 ticket required, 10 another cell, 11 entered in the lottery. The
-- verdicts of a change of an order: 1 done, 2 repeated, 3 wrong state, 4 wrong amount, 5 no such order, 6
-- payment_ref used, 7 key used.

create schema given;
grant usage on schema given to public;

create function given.begin_test() returns void language plpgsql as $$
begin
    truncate voucher, voucher_order, payment, order_event, stock_event, used_key, webhook,
        moved_voucher, lottery, lottery_entry restart identity;
    delete from cell;
    insert into cell (number) values (0);
    perform setval('voucher_id_seq', 100), setval('voucher_order_id_seq', 1000),
            setval('call_number', 0, false);
end $$;

create sequence given.call_number minvalue 0;

create function given.new_voucher(p_stock integer, p_limit integer) returns bigint
language sql as $$
    select id from create_voucher(nextval('voucher_id_seq'), 'title', '', 100, 200, p_stock, p_limit,
                                  now() - interval '1 min', now() + interval '1 h', 900)
$$;

create function given.new_lottery(p_stock integer) returns bigint language sql as $$
    select id from create_voucher(nextval('voucher_id_seq'), 'title', '', 100, 200, p_stock, 1,
                                  now() - interval '1 min', now() + interval '1 h', 900,
                                  p_is_lottery => true)
$$;

create function given.close(p_voucher bigint) returns bigint language sql as $$
    select id from patch_voucher(p_voucher, null, null, null, now(), null)
$$;

create function given.draw(p_max integer) returns boolean language sql as $$
    select voucher is not null from draw_lotteries(p_max)
$$;

-- Advances the sequence of orders and events by p_numbers, and then creates a voucher with the next
-- id.
create function given.new_next_voucher(p_numbers bigint) returns bigint language sql as $$
    select setval('voucher_order_id_seq', last_value + p_numbers) from voucher_order_id_seq;
    select id from create_voucher(next_voucher_id(), 'title', '', 100, 200, 1000000, 1,
                                  now() - interval '1 min', now() + interval '1 h', 900)
$$;

create function given.place(p_voucher bigint, p_users bigint[], p_fences bigint[] default null,
    p_keys text[] default null, p_tickets boolean[] default null) returns text language sql as $$
    select array_to_string(verdicts, ' ')
    from place_orders(p_voucher, p_users,
                      coalesce(p_fences, array_fill(0::bigint, array[cardinality(p_users)])),
                      p_keys, p_tickets)
$$;

-- Places a batch. Returns "VERDICTS / SHOPPERS / POSITIONS". SHOPPERS has the shopper of each order
-- that was placed or found, or "-". POSITIONS has the position of each request whose key was
-- repeated.
create function given.placed(p_voucher bigint, p_users bigint[], p_fences bigint[] default null,
    p_keys text[] default null, p_tickets boolean[] default null) returns text
language plpgsql as $$
declare
    p record;
begin
    select * into p
    from place_orders(p_voucher, p_users,
                      coalesce(p_fences, array_fill(0::bigint, array[cardinality(p_users)])),
                      p_keys, p_tickets);
    return concat_ws(' / ', array_to_string(p.verdicts, ' '),
        (select string_agg(coalesce(o.user_id::text, '-'), ' ' order by at)
         from unnest(p.order_ids) with ordinality i (id, at)
         left join voucher_order o on o.voucher_id = p_voucher and o.id = i.id),
        (select string_agg(d::text, ' ' order by at)
         from unnest(p.details) with ordinality x (d, at) where at % 6 = 1));
end $$;

create function given.order_of(p_voucher bigint, p_user bigint) returns bigint language sql as $$
    select id from voucher_order where voucher_id = p_voucher and user_id = p_user
    order by id desc limit 1
$$;

create function given.pay(p_voucher bigint, p_user bigint, p_ref text default null,
    p_cents bigint default 100) returns smallint language sql as $$
    select verdict from pay_order(p_voucher, order_of(p_voucher, p_user), 'payment:1',
                                  coalesce(p_ref, 'ref ' || p_user), p_cents)
$$;
create function given.cancel(p_voucher bigint, p_user bigint) returns smallint language sql as $$
    select verdict from cancel_order(p_voucher, order_of(p_voucher, p_user), 'shopper:1')
$$;
create function given.refund(p_voucher bigint, p_user bigint) returns smallint language sql as $$
    select verdict from refund_order(p_voucher, order_of(p_voucher, p_user), 'admin:1')
$$;
create function given.redeem(p_voucher bigint, p_user bigint) returns smallint language sql as $$
    select verdict from redeem_order(p_voucher, order_of(p_voucher, p_user), 'admin:1')
$$;
create function given.expire(p_voucher bigint, p_user bigint) returns bigint language sql as $$
    select expire_orders(p_voucher, array[order_of(p_voucher, p_user)])
$$;

-- Cancels the order of a shopper that has this slot.
create function given.free_slot(p_voucher bigint, p_user bigint, p_slot integer) returns smallint
language sql as $$
    select c.verdict from voucher_order o, cancel_order(p_voucher, o.id, 'shopper:1') c
    where o.voucher_id = p_voucher and o.user_id = p_user and o.slot = p_slot
$$;

create function given.make_due(p_voucher bigint, p_user bigint) returns void language sql as $$
    update voucher_order set created_at = created_at - interval '1 s', expires_at = created_at
    where id = order_of(p_voucher, p_user);
    update voucher set created_at = created_at - interval '2 s' where id = p_voucher;
$$;

-- Calls a function as if this database were the cell p_number/p_cells. Returns its result or its
-- error, and rolls all changes back.
create function given.in_cell(p_number integer, p_cells integer, p_call text) returns text
language plpgsql as $$
declare
    v_result text;
begin
    update cell set number = p_number, cells = p_cells;
    execute 'select ' || p_call into v_result;
    raise exception using message = coalesce(v_result, 'null');
exception when raise_exception then
    return sqlerrm;
end $$;

-- -- queries, and the pages that they read --

create table given.query (folder text, name text, bytes text); -- the files sql/FOLDER/NAME.sql

create function given.prepare(p_query text) returns void language plpgsql as $$
begin
    execute format('prepare %s as %s', p_query,
                   (select bytes from query where folder = 'queries' and name = p_query));
end $$;

-- Returns the first column of the rows of a prepared query. With p_shift = 20 each id of an order
-- or event is reduced to its number.
create function given.ids(p_call text, p_shift integer default 0) returns text
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

-- Returns how many pages of tables and indexes this session has read. Pages of the system catalogs
-- are not counted, because they depend on the cache of the session.
create function given.all_pages_read() returns bigint language sql as $$
    select sum(pg_stat_get_xact_blocks_fetched(oid))::bigint from pg_class
    where relnamespace = current_schema::regnamespace and relkind in ('r', 'i')
$$;

create function given.pages_read(p_statement text) returns bigint language plpgsql as $$
declare
    v_before bigint := all_pages_read();
begin
    execute p_statement;
    return all_pages_read() - v_before;
end $$;

-- Returns how many pages a call reads. Fails if the call does not return p_wanted.
create function given.pages_of(p_call text, p_wanted text) returns bigint language plpgsql as $$
declare
    v_before bigint := all_pages_read();
    v_result text;
begin
    execute 'select ' || p_call into v_result;
    if v_result is distinct from p_wanted then
        raise exception '% returned %', p_call, v_result;
    end if;
    return all_pages_read() - v_before;
end $$;
