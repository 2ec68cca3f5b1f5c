-- Pay, cancel, refund or redeem an order for a request with the key `p_key` (NULL: no key). Returns
-- what pay_order() or move_order() returns, and in addition
--   2 repeated          this request has changed the order before
--   7 other request     the key belongs to another request of this actor for the voucher
--
-- If a request is refused, its key is not kept.
create or replace function change_order(p_change text, p_voucher bigint, p_order bigint,
    p_actor text, p_key text, p_payment_ref text, p_amount_cents bigint,
    out verdict smallint, out changed voucher_order)
language plpgsql security definer set search_path from current
as $$
declare
    v_use record;
    v_done record;
begin
    if p_key is not null then
        changed := hold_order(p_voucher, p_order);
        if changed.id is null then
            verdict := 5;
            return;
        end if;
        select * into v_use
        from use_key(p_voucher, p_actor, p_key,
                     md5(row(p_change, p_order, p_payment_ref, p_amount_cents)::text), null);
        if not v_use.is_new then
            verdict := case when v_use.is_same then 2 else 7 end;
            return;
        end if;
    end if;
    if p_change = 'pay' then
        v_done := pay_order(p_voucher, p_order, p_actor, p_payment_ref, p_amount_cents);
    elsif p_change = 'cancel' then
        v_done := cancel_order(p_voucher, p_order, p_actor);
    elsif p_change = 'refund' then
        v_done := refund_order(p_voucher, p_order, p_actor);
    else
        v_done := redeem_order(p_voucher, p_order, p_actor);
    end if;
    verdict := v_done.verdict;
    changed := v_done.changed;
    if verdict > 2 then
        delete from used_key k
        where k.voucher_id = p_voucher and k.actor = p_actor and k.key = p_key;
    end if;
end
$$;

revoke execute on function change_order from public;
