-- Draw a batch of at most p_max winners of a lottery whose sale has ended, and place their orders.
--
--   winners    how many winners have been drawn, by this call and earlier ones. NULL: no draw is
--              due, or another session holds the voucher's row
--   has_ended  whether this was the last batch
--
-- The winners are the entries with the smallest ranks, as many as the total stock. `last_rank` is the
-- state of the draw, and changes in the transaction of the orders. So the draw may stop after any
-- call, and the next call continues it. It ends when there are no more entries or no more stock.
-- Stock that winners return stays unsold, so that everybody can verify the number of winners.
create or replace function draw_lottery(p_voucher bigint, p_max integer,
    out winners bigint, out has_ended boolean)
language plpgsql
as $$
declare
    v voucher;
    l record;
    v_now timestamptz;
    v_count integer;
    v_users bigint[];
    v_ids bigint[];
begin
    select * into v from voucher where id = p_voucher for no key update skip locked;
    v_now := clock_timestamp();
    if not found or (v.seed is null and v.end_at > v_now) then
        return;
    end if;
    select * into l from lottery where voucher_id = p_voucher and draw_at is not null;
    if not found then
        return;
    end if;

    v_count := least(p_max, greatest(v.stock_total - l.winners, 0));
    v_users := array(select e.user_id from lottery_entry e
                     where e.voucher_id = p_voucher and e.rank > l.last_rank
                     order by e.rank limit v_count);
    has_ended := v_count >= v.stock_total - l.winners or cardinality(v_users) < v_count;
    v_count := cardinality(v_users);
    v_ids := array(select next_event_id(p_voucher) from generate_series(1, v_count));
    insert into voucher_order (voucher_id, id, user_id, price_cents, created_at, expires_at,
                               slot, due_to_id, follows)
    select p_voucher, v_ids[i], v_users[i], v.price_cents, v_now,
           v_now + make_interval(secs => v.pay_within_s), 1,
           case when i = 1 then v_ids[v_count] end, case when i > 1 then true end
    from generate_series(1, v_count) i;

    winners := l.winners + v_count;
    update voucher
    set stock_left = v.stock_left - v_count, version = v.version + 1, seed = l.seed,
        drawn_at = case when has_ended then v_now end
    where id = p_voucher;
    update lottery d
    set draw_at = case when not has_ended then d.draw_at end, winners = draw_lottery.winners,
        last_rank = coalesce(lottery_rank(l.seed, v_users[v_count]), l.last_rank)
    where d.voucher_id = p_voucher;
    if has_ended then
        perform pg_notify('seckill_voucher', p_voucher::text);
    end if;
end
$$;
