-- each winner of a lottery has one order, and nobody else has one
-- An aggregate has the orders of all cells, but no entries. An erased shopper has no entry any more,
-- and a number above 2^62, see functions/erase_shoppers.sql.
select format('voucher %s: shopper %s has %s, and %s orders', voucher_id, user_id,
              case max(won) when 1 then 'won' when 0 then 'not won' else 'not entered' end,
              sum(orders))
from (select voucher_id, user_id, has_won::integer as won, 0 as orders
      from drawn_entry
      union all
      select o.voucher_id, o.user_id, null, 1
      from voucher v
      join voucher_order o on o.voucher_id = v.id
      where v.commitment is not null and o.user_id < 4611686018427387904
        and not exists (select from cell where number < 0)) r
group by voucher_id, user_id
having sum(orders) <> coalesce(max(won), 0);
