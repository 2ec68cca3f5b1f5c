-- Enter shoppers in a lottery, and return a verdict for each: 11 if the shopper has entered, now or
-- before. p_refusal is 4 while the sale is open, otherwise the verdict for shoppers who have not
-- entered. Once the draw has begun, no shopper can enter any more, even if the end of the sale was
-- moved. The caller holds the lock of the voucher's row.
create or replace function enter_lottery(v voucher, p_users bigint[], p_refusal smallint)
returns smallint[]
language plpgsql
as $$
declare
    v_seed bytea := (select l.seed from lottery l where l.voucher_id = v.id);
begin
    if p_refusal = 4 and v.seed is null then
        insert into lottery_entry (voucher_id, user_id, rank)
        select v.id, c.user_id, lottery_rank(v_seed, c.user_id)
        from unnest(p_users) c (user_id)
        on conflict do nothing;
        return array_fill(11::smallint, array[cardinality(p_users)]);
    end if;
    return array(
        select case when e.rank is null then case p_refusal when 4 then 6 else p_refusal end
                    else 11 end
        from unnest(p_users) with ordinality c (user_id, pos)
        left join lateral (
            select e.rank from lottery_entry e
            where e.voucher_id = v.id and e.rank = lottery_rank(v_seed, c.user_id)
            order by e.rank limit 1) e on true
        order by c.pos);
end
$$;
