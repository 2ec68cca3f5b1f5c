-- Pay an order. Returns the order as it is afterwards, and
--   1 done          the order is paid
--   2 repeated      this payment paid it before; nothing was changed
--   3 wrong state   the order is not unpaid, or has just expired
--   4 wrong amount  the amount is not the order's price
--   5 no order      there is no such order; `changed` is NULL
--
-- A payment after the deadline is too late even if the order is still unpaid: it expires here.
create or replace function pay_order(p_voucher bigint, p_order bigint, p_actor text,
    p_payment_ref text, p_amount_cents bigint,
    out verdict smallint, out changed voucher_order)
language plpgsql security definer set search_path from current
as $$
declare
    v_at timestamptz;
begin
    changed := hold_order(p_voucher, p_order);
    v_at := clock_timestamp();
    if changed.id is null then
        verdict := 5;
    elsif changed.payment_ref = p_payment_ref then
        verdict := case when changed.price_cents = p_amount_cents then 2 else 4 end;
    elsif changed.status <> 'unpaid' then
        verdict := 3;
    elsif changed.expires_at <= v_at then
        perform move_orders(p_voucher, array[p_order], 'unpaid', 'expired', v_at, 'system');
        verdict := 3;
    elsif changed.price_cents <> p_amount_cents then
        verdict := 4;
    else
        perform move_orders(p_voucher, array[p_order], 'unpaid', 'paid', v_at, p_actor,
                            p_payment_ref);
        verdict := 1;
    end if;
    changed := hold_order(p_voucher, p_order);
end
$$;

revoke execute on function pay_order from public;
