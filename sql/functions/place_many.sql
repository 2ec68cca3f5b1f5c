-- Decide batches of requests for different vouchers in one transaction, each batch as
-- place_orders() does.
--
--   p_vouchers                  the voucher of each batch
--   p_firsts, p_lasts           for each batch, the position of its first and its last request in
--                               the arrays below
--   p_users, p_fences, p_keys,
--   p_tickets                   the requests, as in place_orders()
--
-- Returns a row for each batch, as place_orders() does, with the number of the batch. If a voucher
-- does not exist, or another session has locked its row, its batch has no row and was not decided.
-- So a locked voucher does not delay the others. But calls of this function with the same voucher
-- wait for each other, by an advisory lock for the voucher. Otherwise two instances that sell the
-- same vouchers would often find the rows locked by each other.
--
-- A batch is plain if the voucher is no lottery, the sale is open, there is stock for all its
-- requests, no required ticket is missing, and no shopper is in it twice or has ordered the voucher
-- before. One statement takes the stock for all plain batches and places their orders.
-- place_orders() decides the other batches.
drop function if exists place_many(bigint[], bigint[], bigint[], bigint[], bigint[], text[]); -- without p_tickets

create or replace function place_many(p_vouchers bigint[], p_firsts bigint[], p_lasts bigint[],
    p_users bigint[], p_fences bigint[], p_keys text[], p_tickets boolean[] default null)
returns table (verdicts smallint[], order_ids bigint[], details bigint[],
    price bigint, decided_at timestamptz, expiry timestamptz,
    new_stock integer, new_version bigint, opens timestamptz, closes timestamptz, batch bigint)
language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off set search_path from current
as $$
declare
    v_now timestamptz;
    v_locked bigint[]; -- numbers of the batches whose vouchers are locked here
    v_plain bigint[];  -- numbers of the plain batches
    v_numbers bigint[]; -- the number of each request's order, in the upper bits of the id
begin
    perform pg_advisory_xact_lock(5265717, (b.voucher % 2147483648)::integer)
    from (select voucher from unnest(p_vouchers) b (voucher) order by voucher) b;
    v_locked := array(
        select b.n from unnest(p_vouchers) with ordinality b (voucher, n)
        cross join lateral (select from voucher v where v.id = b.voucher
                            for no key update skip locked) v);
    v_now := clock_timestamp();

    v_plain := array(
        select b.n from unnest(v_locked) b (n)
        cross join lateral (select * from voucher v where v.id = p_vouchers[b.n]
                            order by v.id limit 1) v
        where v_now >= v.begin_at and v_now < v.end_at and v.commitment is null
          and (v.requires_ticket
               and false = any (p_tickets[p_firsts[b.n]:p_lasts[b.n]])) is not true
          and v.stock_left > p_lasts[b.n] - p_firsts[b.n]
          and (p_firsts[b.n] = p_lasts[b.n]
               or (select count(distinct u) from unnest(p_users[p_firsts[b.n]:p_lasts[b.n]]) u)
                  > p_lasts[b.n] - p_firsts[b.n])
          and not exists (
              select from generate_series(p_firsts[b.n], p_lasts[b.n]) i
              cross join lateral (select from voucher_order o
                                  where segment_of(o.voucher_id) = segment_of(v.id)
                                    and o.user_id = p_users[i] and o.voucher_id = v.id
                                  order by o.slot limit 1) o));

    -- Each batch has one entry in the index of deadlines and one in the index of the feed, as in
    -- place_orders(). Because the vouchers are locked, no order of another transaction has an id
    -- between the ids of a batch.
    v_numbers := array(select nextval('voucher_order_id_seq')
                       from generate_series(1, cardinality(p_users)));
    return query
    with sold as (
        update voucher v
        set stock_left = v.stock_left - (p_lasts[b.n] - p_firsts[b.n] + 1),
            version = v.version + 1
        from unnest(v_plain) b (n)
        where v.id = p_vouchers[b.n]
        returning v.*, b.n, p_firsts[b.n] as first, p_lasts[b.n] as last
    ), placed as (
        insert into voucher_order (voucher_id, id, user_id, fence, price_cents, created_at,
                                   expires_at, slot, request_key, due_to_id, follows)
        select s.id, v_numbers[i] * 1048576 + s.id % 1048576, p_users[i], nullif(p_fences[i], 0),
               s.price_cents, v_now, v_now + make_interval(secs => s.pay_within_s), 1, p_keys[i],
               case when i = s.first then v_numbers[s.last] * 1048576 + s.id % 1048576 end,
               case when i > s.first then true end
        from sold s cross join lateral generate_series(s.first, s.last) i
    )
    select array_fill(1::smallint, array[(s.last - s.first + 1)::integer]),
           array(select v_numbers[i] * 1048576 + s.id % 1048576
                 from generate_series(s.first, s.last) i),
           null::bigint[], s.price_cents::bigint, v_now,
           v_now + make_interval(secs => s.pay_within_s), s.stock_left::integer, s.version,
           s.begin_at, s.end_at, s.n
    from sold s;

    if cardinality(v_plain) < cardinality(v_locked) then
        return query
        select p.*, b.n from unnest(v_locked) b (n)
        cross join lateral place_orders(p_vouchers[b.n], p_users[p_firsts[b.n]:p_lasts[b.n]],
            p_fences[p_firsts[b.n]:p_lasts[b.n]], p_keys[p_firsts[b.n]:p_lasts[b.n]],
            p_tickets[p_firsts[b.n]:p_lasts[b.n]]) p
        where b.n <> all (v_plain);
    end if;
end
$$;

revoke execute on function place_many from public;
