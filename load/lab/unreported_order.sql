-- Defect: places an order but answers "sold out" to every fifth shopper, so the stock is lost.
alter function place_orders rename to place_orders_correct;

create function place_orders(p_voucher bigint, p_users bigint[], p_fences bigint[],
                             p_keys text[], p_tickets boolean[] default null,
    out verdicts smallint[], out order_ids bigint[], out details bigint[],
    out price bigint, out decided_at timestamptz, out expiry timestamptz,
    out new_stock integer, out new_version bigint, out opens timestamptz, out closes timestamptz)
language plpgsql security definer set search_path = public, pg_temp
as $$
begin
    select * from place_orders_correct(p_voucher, p_users, p_fences, p_keys, p_tickets)
    into verdicts, order_ids, details, price, decided_at, expiry, new_stock, new_version, opens,
         closes;
    for i in 1 .. cardinality(p_users) loop
        if verdicts[i] = 1 and p_users[i] % 5 = 0 then
            verdicts[i] := 4;
            order_ids[i] := null;
        end if;
    end loop;
end
$$;
