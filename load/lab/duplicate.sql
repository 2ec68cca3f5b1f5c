-- Looks whether the shopper has an order, then inserts one, and no unique index stands
-- behind it. The stock is kept right. Tried without Redis: where its lock holds, a shopper's
-- requests come one after the other, and nobody sees what is wrong.
drop index voucher_order_slot;
drop index voucher_order_key;

create or replace function place_orders(p_voucher bigint, p_users bigint[], p_fences bigint[],
                                        p_keys text[],
    out verdicts smallint[], out order_ids bigint[], out details bigint[],
    out price bigint, out decided_at timestamptz, out expiry timestamptz,
    out new_stock integer, out new_version bigint, out opens timestamptz, out closes timestamptz)
language plpgsql security definer set search_path = public, pg_temp
as $$
declare
    v voucher;
    v_mine bigint[];
begin
    v_mine := array(
        select (select o.id from voucher_order o
                where o.voucher_id = p_voucher and o.user_id = u order by o.id limit 1)
        from unnest(p_users) with ordinality as c (u, n) order by n);
    select * into v from voucher where id = p_voucher for no key update;
    decided_at := clock_timestamp();
    expiry := decided_at + make_interval(secs => v.pay_within_s);
    price := v.price_cents;
    opens := v.begin_at;
    closes := v.end_at;
    new_stock := v.stock_left;
    new_version := v.version + 1;
    for i in 1 .. cardinality(p_users) loop
        verdicts[i] := case when v_mine[i] is not null then 3 when new_stock = 0 then 4 else 1 end;
        order_ids[i] := v_mine[i];
        continue when verdicts[i] <> 1;
        insert into voucher_order (voucher_id, id, user_id, fence, price_cents, created_at,
                                   expires_at, slot, request_key)
        values (p_voucher, nextval('voucher_order_id_seq') * 1048576 + p_voucher % 1048576,
                p_users[i], nullif(p_fences[i], 0), price, decided_at, expiry, 1, p_keys[i])
        returning id into order_ids[i];
        new_stock := new_stock - 1;
    end loop;
    update voucher set stock_left = new_stock, version = new_version where id = p_voucher;
end
$$;
