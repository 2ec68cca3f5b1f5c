-- Defect: reads the stock and writes it back without a lock on the voucher's row, so two concurrent
-- transactions sell the same pieces.
create or replace function place_orders(p_voucher bigint, p_users bigint[], p_fences bigint[],
                                        p_keys text[], p_tickets boolean[] default null,
    out verdicts smallint[], out order_ids bigint[], out details bigint[],
    out price bigint, out decided_at timestamptz, out expiry timestamptz,
    out new_stock integer, out new_version bigint, out opens timestamptz, out closes timestamptz)
language plpgsql security definer set search_path = public, pg_temp
as $$
declare
    v voucher;
    v_id bigint;
begin
    select * into v from voucher where id = p_voucher; -- without "for no key update"
    decided_at := clock_timestamp();
    expiry := decided_at + make_interval(secs => v.pay_within_s);
    price := v.price_cents;
    opens := v.begin_at;
    closes := v.end_at;
    new_stock := v.stock_left;
    new_version := v.version + 1;
    for i in 1 .. cardinality(p_users) loop
        verdicts[i] := 4;
        order_ids[i] := null;
        continue when new_stock = 0;
        insert into voucher_order (voucher_id, id, user_id, fence, price_cents, created_at,
                                   expires_at, slot, request_key)
        values (p_voucher, nextval('voucher_order_id_seq') * 1048576 + p_voucher % 1048576,
                p_users[i], nullif(p_fences[i], 0), price, decided_at, expiry, 1, p_keys[i])
        on conflict do nothing
        returning id into v_id;
        verdicts[i] := case when found then 1 else 4 end;
        order_ids[i] := case when found then v_id end;
        new_stock := new_stock - found::integer;
    end loop;
    update voucher set stock_left = new_stock, version = new_version where id = p_voucher;
end
$$;
