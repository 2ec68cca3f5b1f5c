drop function if exists draw_lotteries(integer);

-- Draw a batch of at most p_max winners of the first lottery that is due, see draw_lottery(). To be
-- called until `voucher` is NULL: no draw is due, or other sessions hold the vouchers' rows. A lottery
-- whose draw fails is left out, so that it does not hold back the draws of the others.
--
--   voucher    the lottery
--   winners    how many winners have been drawn, by this call and earlier ones
--   has_ended  whether this was the last batch
--   refused    a lottery whose draw this call has tried, and which has failed; or NULL
--   reason     why
create function draw_lotteries(p_max integer, out voucher bigint, out winners bigint,
    out has_ended boolean, out refused bigint, out reason text)
language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off set search_path from current
as $$
declare
    v_due bigint;
begin
    for v_due in
        select d.voucher_id from lottery d where d.draw_at <= now() order by d.draw_at
    loop
        begin
            select d.winners, d.has_ended into winners, has_ended from draw_lottery(v_due, p_max) d;
            if winners is not null then
                voucher := v_due;
                return;
            end if;
        exception when others then
            refused := v_due;
            reason := sqlerrm;
        end;
    end loop;
end
$$;

revoke execute on function draw_lotteries from public;
