-- Placing for less. Of what Postgres did for an order in a large batch, a fifth went into two
-- things: the entry of each order in the index of deadlines, and the two-step insert of ON
-- CONFLICT, where nearly every batch is of shoppers who never ordered the voucher before.

-- The orders of a batch have one deadline, so their first stands for them all: it names the
-- last. Orders placed one by one, and those of small batches, stand for themselves. Those still
-- unpaid when the deadline comes are found from there, by the primary key; when none is left,
-- this is NULL again. A payment now changes nothing that an index holds.
--
-- Calls of the version before may be at work still: 010 sees to what they place.
alter table voucher_order add column due_to_id bigint;

-- As in 002, with due_to_id.

-- Place one order of a shopper who has another one: in the lowest free slot. For
-- place_orders() only, which holds the voucher `v`.
create or replace function place_in_free_slot(v voucher, p_at timestamptz, p_user bigint, p_fence bigint,
                                   p_key text,
    out verdict smallint, out order_id bigint, out detail bigint[])
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off
as $$
declare
    v_slots smallint[];
    v_newest_fence bigint;
begin
    -- earlier rows of the same batch may have changed the answer
    select f.verdict, f.order_id, f.detail into verdict, order_id, detail
    from find_orders(v.id, array[p_user], array[p_key]) f;
    if verdict <> 0 then
        return;
    end if;

    select array_agg(mine.slot), max(mine.fence) into v_slots, v_newest_fence
    from (
        select o.slot, o.fence from voucher_order o
        where o.user_id = p_user and o.voucher_id = v.id
        order by o.slot
    ) mine;
    if p_fence <> 0 and p_fence <= v_newest_fence then
        verdict := 7;
        return;
    end if;

    verdict := 1;
    insert into voucher_order (voucher_id, id, user_id, fence, price_cents, created_at,
                               expires_at, slot, request_key, due_to_id)
    select v.id, n.id, p_user, nullif(p_fence, 0), v.price_cents, p_at, p_at + make_interval(secs => v.pay_within_s),
           (select min(s) from generate_series(1, v.per_user_limit) s
            where (s = any (v_slots)) is not true),
           p_key, n.id
    from next_event_id(v.id) n (id)
    returning id into order_id;
end
$$;

-- Judge a batch of requests for one voucher, and place those orders that may be, in the
-- order of the requests; one transaction, one lock, one update of the stock.
--
--   p_users, p_fences, p_keys   one element per request; fence 0: taken without a lock, it
--                               is not checked; key NULL, or all of p_keys NULL: none
--   verdicts   1 placed, 2 repeated, 3 already ordered, 4 sold out, 5 not started,
--              6 sale ended, 7 stale fence, 8 no such voucher
--   order_ids  for 1, 2 and 3, else NULL
--   details    NULL, or for each 2 its position followed by its order_detail()
--   the rest   the voucher as this batch leaves it; NULL when there is none
--
-- `decided_at` is the database's clock when the row was held, and when the orders were
-- made. Stock is taken for inserted rows only.
create or replace function place_orders(p_voucher bigint, p_users bigint[], p_fences bigint[],
                             p_keys text[],
    out verdicts smallint[], out order_ids bigint[], out details bigint[],
    out price bigint, out decided_at timestamptz, out expiry timestamptz,
    out new_stock integer, out new_version bigint, out opens timestamptz, out closes timestamptz)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off
as $$
declare
    v voucher;
    f record;
    n integer := cardinality(p_users);
    v_from integer := 1; -- the first request that is not judged yet
    v_to integer;
    v_are_new boolean := false;
    v_inserted integer;
    v_inserted_ids bigint[];
    v_next integer;
    v_refused integer[]; -- positions
    v_closed smallint := 4;
begin
    select * into v from voucher where id = p_voucher for no key update;
    decided_at := clock_timestamp();
    if not found then
        verdicts := array_fill(8::smallint, array[n]);
        order_ids := array_fill(null::bigint, array[n]);
        return;
    end if;
    price := v.price_cents;
    expiry := decided_at + make_interval(secs => v.pay_within_s);
    opens := v.begin_at;
    closes := v.end_at;
    new_stock := v.stock_left;
    new_version := v.version;

    if decided_at < opens then
        v_closed := 5;
    elsif decided_at >= closes then
        v_closed := 6;
    end if;

    -- As many as there is stock for, at once; what they leave of it, to the next ones.
    while v_closed = 4 and v_from <= n and new_stock > 0 loop
        v_to := least(n, v_from + new_stock - 1);
        order_ids := order_ids ||
            array(select nextval('voucher_order_id_seq') * 1048576 + p_voucher % 1048576
                  from generate_series(v_from, v_to));
        -- Nobody who ordered before, nobody twice: then nothing can be in the way, as long as
        -- the voucher is held. Asking so once spares each row the two-step insert of ON
        -- CONFLICT, and the batch has one entry in the index of deadlines. In a small batch
        -- the question costs more than it spares.
        if n >= 16 then
            v_are_new := cardinality(array(select distinct unnest(p_users))) = n
                and (select o.user_id from voucher_order o
                     where o.user_id = any (p_users) and o.voucher_id = p_voucher
                     order by o.user_id limit 1) is null;
        end if;
        if v_are_new then
            insert into voucher_order (voucher_id, id, user_id, fence, price_cents, created_at,
                                       expires_at, slot, request_key, due_to_id)
            select p_voucher, order_ids[i], p_users[i], nullif(p_fences[i], 0), price, decided_at,
                   expiry, 1, p_keys[i], case when i = v_from then order_ids[v_to] end
            from generate_series(v_from, v_to) i;
        else
            insert into voucher_order (voucher_id, id, user_id, fence, price_cents, created_at,
                                       expires_at, slot, request_key, due_to_id)
            select p_voucher, order_ids[i], p_users[i], nullif(p_fences[i], 0), price, decided_at,
                   expiry, 1, p_keys[i], order_ids[i]
            from generate_series(v_from, v_to) i
            where p_fences[i] = 0 or p_fences[i] > v.ended_fence
            on conflict do nothing;
        end if;
        get diagnostics v_inserted = row_count;
        new_stock := new_stock - v_inserted;
        verdicts := verdicts || array_fill(1::smallint, array[v_to - v_from + 1]);

        if v_inserted < v_to - v_from + 1 then
            v_inserted_ids := array(
                select o.id from voucher_order o
                where o.voucher_id = p_voucher
                  and o.id between order_ids[v_from] and order_ids[v_to]
                order by o.id);
            v_next := 1;
            v_refused := '{}';
            for i in v_from .. v_to loop
                if order_ids[i] = v_inserted_ids[v_next] then
                    v_next := v_next + 1;
                else
                    v_refused := v_refused || i;
                end if;
            end loop;

            for f in
                select r.*
                from find_orders(p_voucher,
                    array(select p_users[i] from unnest(v_refused) i),
                    array(select p_keys[i] from unnest(v_refused) i)) r
            loop
                v_next := v_refused[f.pos];
                if f.verdict = 0 then
                    select s.* into f.verdict, f.order_id, f.detail
                    from place_in_free_slot(v, decided_at, p_users[v_next], p_fences[v_next],
                                            p_keys[v_next]) s;
                    new_stock := new_stock - (f.verdict = 1)::integer;
                end if;
                verdicts[v_next] := f.verdict;
                order_ids[v_next] := f.order_id;
                if f.verdict = 2 then
                    details := details || (v_next || f.detail);
                end if;
            end loop;
        end if;
        v_from := v_to + 1;
    end loop;

    if v_from <= n then
        for f in select r.* from find_orders(p_voucher, p_users[v_from:n], p_keys[v_from:n]) r loop
            v_next := v_from - 1 + f.pos;
            verdicts[v_next] := case f.verdict when 0 then v_closed else f.verdict end;
            order_ids[v_next] := f.order_id;
            if f.verdict = 2 then
                details := details || (v_next || f.detail);
            end if;
        end loop;
    end if;

    if new_stock <> v.stock_left then
        update voucher set stock_left = new_stock, version = v.version + 1 where id = p_voucher
        returning version into new_version;
    end if;
end
$$;

-- Expire what is unpaid and overdue of these batches, told by their first orders; not more than
-- 500, as the sale of the voucher waits. `ended` counts those of which nothing is left to
-- expire, up to the first that has some: they need no further look.
create function expire_batches(p_voucher bigint, p_firsts bigint[],
    out expired bigint, out ended bigint)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off
as $$
declare
    v_first bigint;
begin
    perform from voucher v where v.id = p_voucher for no key update;
    expired := expire_orders(p_voucher, array(
        select unpaid.id
        from unnest(p_firsts) c (id)
        cross join lateral (
            select o.due_to_id from voucher_order o
            where o.voucher_id = p_voucher and o.id between c.id and c.id
            order by o.id limit 1
        ) batch
        cross join lateral (
            select o.id from voucher_order o
            where o.voucher_id = p_voucher and o.id between c.id and batch.due_to_id
              and o.status = 'unpaid'
            order by o.id
        ) unpaid
        limit 500));

    ended := 0;
    foreach v_first in array p_firsts loop
        update voucher_order batch
        set due_to_id = null
        where batch.voucher_id = p_voucher and batch.id = v_first
          and batch.due_to_id is not null
          and (select o.id from voucher_order o
               where o.voucher_id = p_voucher and o.id between batch.id and batch.due_to_id
                 and o.status = 'unpaid'
               order by o.id limit 1) is null;
        exit when not found;
        ended := ended + 1;
    end loop;
end
$$;

-- With their owner's rights, as in 007: what is replaced has lost that.
do $$
declare
    f regprocedure;
begin
    foreach f in array array(
        select p.oid::regprocedure from pg_proc p
        where p.pronamespace = current_schema::regnamespace
          and p.proname in ('place_orders', 'expire_batches'))
    loop
        execute format('alter function %s security definer set search_path = %I, pg_temp',
                       f, current_schema);
        execute format('revoke execute on function %s from public', f);
    end loop;
end
$$;

-- As in 007, with expire_batches().
create or replace function grant_service(p_role text) returns void
language plpgsql
as $$
declare
    f regprocedure;
begin
    execute format('grant usage on schema %I to %I', current_schema, p_role);
    execute format('grant select on voucher, voucher_order, order_event, stock_event,'
                   ' voucher_history to %I', p_role);
    execute format('grant usage on sequence voucher_id_seq to %I', p_role);
    foreach f in array array(
        select p.oid::regprocedure from pg_proc p
        where p.pronamespace = current_schema::regnamespace
          and p.proname in ('place_orders', 'find_orders', 'resolve_orders', 'order_detail',
                            'unix_us', 'create_voucher', 'patch_voucher', 'restock_voucher',
                            'pay_order', 'cancel_order', 'refund_order', 'redeem_order',
                            'expire_orders', 'expire_batches'))
    loop
        execute format('grant execute on function %s to %I', f, p_role);
    end loop;
end
$$;
