-- Move one order from the state p_from to the state p_to. Returns the new state of the order, and
--   1 done          the order was moved
--   3 wrong state   the order is not in the state p_from
--   5 no order      there is no such order; `changed` is NULL
-- The numbers have the same meanings in pay_order().
create or replace function move_order(p_voucher bigint, p_order bigint, p_from order_status,
    p_to order_status, p_actor text,
    out verdict smallint, out changed voucher_order)
language plpgsql
as $$
begin
    changed := hold_order(p_voucher, p_order);
    if changed.id is null then
        verdict := 5;
    elsif move_orders(p_voucher, array[p_order], p_from, p_to, clock_timestamp(),
                      p_actor) = 0 then
        verdict := 3;
    else
        verdict := 1;
        changed := hold_order(p_voucher, p_order);
    end if;
end
$$;
