-- Find a shopper's entry in a lottery. `won` is NULL before the end of the draw, then 0 or 1.
create or replace function read_entry(p_voucher bigint, p_user bigint)
returns table (rank bytea, won integer)
language plpgsql stable security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off set search_path from current
as $$
begin
    return query
    select case when l.draw_at is null then e.rank end,
           case when l.draw_at is null then (e.rank <= l.last_rank)::integer end
    from (select * from lottery d where d.voucher_id = p_voucher) l
    cross join lateral (
        select e.rank from lottery_entry e
        where e.voucher_id = p_voucher and e.rank = lottery_rank(l.seed, p_user)
        order by e.rank limit 1) e;
end
$$;

revoke execute on function read_entry from public;
