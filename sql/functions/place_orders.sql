-- Decide a batch of requests for one voucher, and place the orders that are allowed. The requests
-- are decided in their order, with one row lock and one update of the stock.
--
--   p_users, p_fences, p_keys   one element per request. Fence 0: the request has no lock, and no
--                               fence is checked. Key NULL, or p_keys NULL: there is no key
--   p_tickets                   whether the request came with a valid ticket. NULL: all did
--   verdicts   1 placed, 2 repeated, 3 already ordered, 4 sold out, 5 not started,
--              6 sale ended, 7 stale fence, 8 no such voucher, 9 ticket required,
--              10 the voucher belongs to another cell, 11 entered in the lottery: the order is
--              placed if the shopper wins, see draw_lotteries()
--   order_ids  the id of the order for the verdicts 1, 2 and 3, NULL for the others
--   details    for each request with the verdict 2: its position, then the order_detail() of its
--              order. NULL if there is no such request
--   decided_at the database's clock after the voucher's row was locked; created_at of the orders
--   expiry     until when the new orders must be paid
--   the rest   the voucher after this batch
--
-- If the voucher does not exist, only verdicts, order_ids and decided_at are set. Stock is taken
-- only for inserted rows.
drop function if exists place_orders(bigint, bigint[], bigint[], text[]); -- without p_tickets

create or replace function place_orders(p_voucher bigint, p_users bigint[], p_fences bigint[],
    p_keys text[], p_tickets boolean[] default null,
    out verdicts smallint[], out order_ids bigint[], out details bigint[],
    out price bigint, out decided_at timestamptz, out expiry timestamptz,
    out new_stock integer, out new_version bigint, out opens timestamptz, out closes timestamptz)
language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off set search_path from current
as $$
declare
    v voucher;
    f record;
    n integer := cardinality(p_users);
    v_from integer := 1; -- the first request without a verdict
    v_to integer;
    v_are_new boolean := false;
    v_inserted integer;
    v_inserted_ids bigint[];
    v_next integer;
    v_refused integer[]; -- positions of requests without an inserted row
    v_closed smallint := 4; -- the verdict of requests that cannot get stock
    v_with integer[]; -- positions of the requests with a ticket
begin
    select * into v from voucher where id = p_voucher for no key update;
    decided_at := clock_timestamp();
    if not found then
        verdicts := array_fill((select case when p_voucher % c.cells = c.number then 8 else 10 end
                                from cell c where c.number >= 0)::smallint, array[n]);
        order_ids := array_fill(null::bigint, array[n]);
        return;
    end if;
    -- The service checks tickets by its catalogue, which may be outdated. If requests without a
    -- ticket are in the batch, the other requests are decided by a separate call.
    if v.requires_ticket and false = any (p_tickets) then
        v_with := array(select i from generate_series(1, n) i where p_tickets[i] order by i);
        select * into verdicts, order_ids, details, price, decided_at, expiry, new_stock,
                      new_version, opens, closes
        from place_orders(p_voucher, array(select p_users[i] from unnest(v_with) i),
                          array(select p_fences[i] from unnest(v_with) i),
                          array(select p_keys[i] from unnest(v_with) i));
        details := (select array_agg(case when (at - 1) % 6 = 0 then v_with[detail] else detail end
                                     order by at)
                    from unnest(details) with ordinality d (detail, at));
        order_ids := array(select order_ids[array_position(v_with, i)]
                           from generate_series(1, n) i order by i);
        verdicts := array(select coalesce(verdicts[array_position(v_with, i)], 9::smallint)
                          from generate_series(1, n) i order by i);
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
    if v.commitment is not null then
        verdicts := enter_lottery(v, p_users, v_closed);
        order_ids := array_fill(null::bigint, array[n]);
        return;
    end if;

    -- Insert as many orders as there is stock for. If some of these requests are refused, the next
    -- pass of the loop gives their stock to the requests behind them.
    while v_closed = 4 and v_from <= n and new_stock > 0 loop
        v_to := least(n, v_from + new_stock - 1);
        order_ids := order_ids ||
            array(select nextval('voucher_order_id_seq') * 1048576 + p_voucher % 1048576
                  from generate_series(v_from, v_to));
        -- If no shopper has ordered before and none is in the batch twice, no row can conflict
        -- while the voucher is locked. Then a plain insert is enough, which is cheaper per row than
        -- the two-step insert of ON CONFLICT. And the whole batch has only one entry in the index
        -- of deadlines and one in the index of the feed. In a small batch the query that finds this
        -- out costs more than it saves.
        if n >= 16 then
            v_are_new := cardinality(array(select distinct unnest(p_users))) = n
                and not exists (
                    select from unnest(p_users) c (user_id)
                    cross join lateral (
                        select from voucher_order o
                        where segment_of(o.voucher_id) = segment_of(p_voucher)
                          and o.user_id = c.user_id and o.voucher_id = p_voucher
                        order by o.slot limit 1) o);
        end if;
        if v_are_new then
            insert into voucher_order (voucher_id, id, user_id, fence, price_cents, created_at,
                                       expires_at, slot, request_key, due_to_id, follows)
            select p_voucher, order_ids[i], p_users[i], nullif(p_fences[i], 0), price, decided_at,
                   expiry, 1, p_keys[i], case when i = v_from then order_ids[v_to] end,
                   case when i > v_from then true end
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

revoke execute on function place_orders from public;
