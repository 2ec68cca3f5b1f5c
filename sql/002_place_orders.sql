-- Placing orders: place_orders() and the look-ups that go with it.
--
-- Everybody who inserts an order holds the lock of its voucher's row, so within a voucher
-- the functions here run one after the other, and the unique indexes have the last word.
--
-- A plan is made once per session, perhaps while the tables are empty, and must still be
-- right with millions of rows: placing needs no look-up but those of ON CONFLICT, and each
-- look-up can only be done by the index whose order it asks for (no sequential scan, no
-- bitmap, no sort; LATERAL leaves no other join than one look-up per row).

create function unix_us(p_at timestamptz) returns bigint
language sql stable
return (extract(epoch from p_at) * 1000000)::bigint;

-- What a reader of an order needs beside its ids, as numbers: price, created, expires, paid
-- (0: never), status (0 is unpaid).
create function order_detail(o voucher_order) returns bigint[]
language sql stable
return array[o.price_cents, unix_us(o.created_at), unix_us(o.expires_at),
             coalesce(unix_us(o.paid_at), 0),
             array_position(enum_range(null::order_status), o.status) - 1];

-- For each shopper and request key (which may be NULL), in this order:
--   2 (repeated)         the key made the order `order_id`, told in `detail`
--   3 (already ordered)  the shopper's live orders have reached the limit; one is `order_id`
--   0 (none)             neither
create function find_orders(p_voucher bigint, p_users bigint[], p_keys text[])
returns table (pos bigint, verdict smallint, order_id bigint, detail bigint[])
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off
as $$
declare
    v_limit bigint := (select v.per_user_limit from voucher v where v.id = p_voucher);
begin
    return query
    select c.pos,
           (case when r.id is not null then 2 when l.live >= v_limit then 3 else 0 end)::smallint,
           coalesce(r.id, case when l.live >= v_limit then l.newest_id end)::bigint,
           r.detail
    from unnest(p_users, p_keys) with ordinality as c (user_id, request_key, pos)
    left join lateral (
        select o.id, order_detail(o) as detail from voucher_order o
        where o.voucher_id = p_voucher and o.user_id = c.user_id
          and o.request_key between c.request_key and c.request_key
        order by o.request_key limit 1
    ) r on true
    left join lateral (
        select count(*) as live, max(live_order.id) as newest_id
        from (
            select o.id from voucher_order o
            where o.user_id = c.user_id and o.voucher_id = p_voucher and o.slot >= 1
            order by o.slot
        ) live_order
    ) l on true;
end
$$;

-- After a lost connection: which of these attempts made an order? By the fence of the lock,
-- or by the key where the fence is 0. 1 (placed) with the order, or 0 (none).
create function resolve_orders(p_voucher bigint, p_users bigint[], p_fences bigint[],
                               p_keys text[])
returns table (pos bigint, verdict smallint, order_id bigint, detail bigint[])
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off
as $$
begin
    return query
    select c.pos, (case when r.id is null then 0 else 1 end)::smallint, r.id::bigint, r.detail
    from unnest(p_users, p_fences, p_keys) with ordinality as c (user_id, fence, request_key, pos)
    left join lateral (
        select mine.id, order_detail(mine) as detail
        from (
            select o.* from voucher_order o
            where o.user_id = c.user_id and o.voucher_id = p_voucher
            order by o.slot
        ) mine
        where case when c.fence > 0 then mine.fence = c.fence
                   else mine.request_key = c.request_key end
        limit 1
    ) r on true;
end
$$;

-- Place one order of a shopper who has another one: in the lowest free slot. For
-- place_orders() only, which holds the voucher `v`.
create function place_in_free_slot(v voucher, p_at timestamptz, p_user bigint, p_fence bigint,
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
                               expires_at, slot, request_key)
    select v.id, nextval('voucher_order_id_seq') * 1048576 + v.id % 1048576, p_user,
           nullif(p_fence, 0), v.price_cents, p_at, p_at + make_interval(secs => v.pay_within_s),
           (select min(s) from generate_series(1, v.per_user_limit) s
            where (s = any (v_slots)) is not true),
           p_key
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
create function place_orders(p_voucher bigint, p_users bigint[], p_fences bigint[],
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
        if p_keys is null then
            -- one index to ask for conflicts instead of all
            insert into voucher_order (voucher_id, id, user_id, fence, price_cents, created_at,
                                       expires_at, slot)
            select p_voucher, order_ids[i], p_users[i], nullif(p_fences[i], 0), price, decided_at,
                   expiry, 1
            from generate_series(v_from, v_to) i
            where p_fences[i] = 0 or p_fences[i] > v.ended_fence
            on conflict (user_id, voucher_id, slot) do nothing;
        else
            insert into voucher_order (voucher_id, id, user_id, fence, price_cents, created_at,
                                       expires_at, slot, request_key)
            select p_voucher, order_ids[i], p_users[i], nullif(p_fences[i], 0), price, decided_at,
                   expiry, 1, p_keys[i]
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
