-- Defect: looks up the shopper's order, and inserts an order if there is none, but has no unique
-- index. The stock stays correct. This defect is tested without Redis: the lock would hide it,
-- because it serialises the requests of a shopper.
drop index voucher_order_slot, voucher_order_key;
create index voucher_order_slot on voucher_order ((voucher_id >> 16), user_id, voucher_id, slot);
create index voucher_order_key on voucher_order (voucher_id, user_id, request_key);

create or replace function place_orders(p_voucher bigint, p_users bigint[], p_fences bigint[],
                                        p_keys text[], p_tickets boolean[] default null,
    out verdicts smallint[], out order_ids bigint[], out details bigint[],
    out price bigint, out decided_at timestamptz, out expiry timestamptz,
    out new_stock integer, out new_version bigint, out opens timestamptz, out closes timestamptz)
language plpgsql security definer set search_path = public, pg_temp
as $$
declare
    v voucher;
    f record;
    v_id bigint;
begin
    for f in select r.* from find_orders(p_voucher, p_users, p_keys) r loop
        if v.id is null then -- after this wait the result of find_orders() may be outdated
            select * into v from voucher where id = p_voucher for no key update;
            decided_at := clock_timestamp();
            expiry := decided_at + make_interval(secs => v.pay_within_s);
            price := v.price_cents;
            opens := v.begin_at;
            closes := v.end_at;
            new_stock := v.stock_left;
            new_version := v.version + 1;
        end if;
        verdicts[f.pos] := case when f.verdict <> 0 then f.verdict
                                 when new_stock = 0 then 4 else 1 end;
        order_ids[f.pos] := f.order_id;
        if f.verdict = 2 then
            details := details || (f.pos || f.detail);
        end if;
        continue when verdicts[f.pos] <> 1;
        insert into voucher_order (voucher_id, id, user_id, fence, price_cents, created_at,
                                   expires_at, slot, request_key)
        values (p_voucher, nextval('voucher_order_id_seq') * 1048576 + p_voucher % 1048576,
                p_users[f.pos], nullif(p_fences[f.pos], 0), price, decided_at, expiry, 1,
                p_keys[f.pos])
        returning id into v_id;
        order_ids[f.pos] := v_id;
        new_stock := new_stock - 1;
    end loop;
    update voucher set stock_left = new_stock, version = new_version where id = p_voucher;
end
$$;
