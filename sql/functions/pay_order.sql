-- Pay an order. Returns the new state of the order, and
--   1 done          the order is paid
--   2 repeated      this payment had paid the order before; nothing was changed
--   3 wrong state   the order is not unpaid, or has just expired
--   4 wrong amount  the amount is not the price of the order
--   5 no order      there is no such order; `changed` is NULL
--   6 payment used  this payment has paid another order
--
-- 6 is returned even if 3 or 4 is true, too, because after 3 or 4 the caller refunds the payment.
-- The refund would be wrong if the payment has paid another order. A payment after the payment
-- deadline is too late, even if the order has not expired yet. Then the order expires here.
create or replace function pay_order(p_voucher bigint, p_order bigint, p_actor text,
    p_payment_ref text, p_amount_cents bigint,
    out verdict smallint, out changed voucher_order)
language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off set search_path from current
as $$
declare
    v_at timestamptz;
    v_paid_order bigint;
begin
    changed := hold_order(p_voucher, p_order);
    v_at := clock_timestamp();
    select p.order_id into v_paid_order from payment p where p.payment_ref = p_payment_ref;
    if changed.id is null then
        verdict := 5;
    elsif v_paid_order <> p_order then
        verdict := 6;
    elsif v_paid_order = p_order and changed.status < 'cancelled' then
        verdict := case when changed.price_cents = p_amount_cents then 2 else 4 end;
    elsif changed.status <> 'unpaid' then
        verdict := 3;
    elsif changed.expires_at <= v_at then
        perform move_orders(p_voucher, array[p_order], 'unpaid', 'expired', v_at, 'system');
        verdict := 3;
    elsif changed.price_cents <> p_amount_cents then
        verdict := 4;
    else
        -- If another session is paying another order with this payment, this statement waits for
        -- it.
        insert into payment (payment_ref, order_id) values (p_payment_ref, p_order)
        on conflict do nothing;
        if found then
            perform move_orders(p_voucher, array[p_order], 'unpaid', 'paid', v_at, p_actor,
                                p_payment_ref);
            verdict := 1;
        else
            verdict := 6;
        end if;
    end if;
    changed := hold_order(p_voucher, p_order);
end
$$;

revoke execute on function pay_order from public;
