-- Defect: answers "sold out" while half of the stock is left.
alter function place_orders rename to place_orders_correct;

create function place_orders(p_voucher bigint, p_users bigint[], p_fences bigint[],
                             p_keys text[], p_tickets boolean[] default null,
    out verdicts smallint[], out order_ids bigint[], out details bigint[],
    out price bigint, out decided_at timestamptz, out expiry timestamptz,
    out new_stock integer, out new_version bigint, out opens timestamptz, out closes timestamptz)
language plpgsql security definer set search_path = public, pg_temp
as $$
declare
    v voucher;
begin
    select * into v from voucher where id = p_voucher for no key update;
    if v.stock_left > v.stock_total / 2 then
        select * from place_orders_correct(p_voucher, p_users, p_fences, p_keys, p_tickets)
        into verdicts, order_ids, details, price, decided_at, expiry, new_stock, new_version,
             opens, closes;
        return;
    end if;
    verdicts := array_fill(4::smallint, array[cardinality(p_users)]);
    order_ids := array_fill(null::bigint, array[cardinality(p_users)]);
    price := v.price_cents;
    decided_at := clock_timestamp();
    expiry := decided_at + make_interval(secs => v.pay_within_s);
    new_stock := v.stock_left;
    new_version := v.version;
    opens := v.begin_at;
    closes := v.end_at;
end
$$;
