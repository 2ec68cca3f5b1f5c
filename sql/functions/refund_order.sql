-- after move_order
--
-- Refund a paid order. See move_order().
create or replace function refund_order(p_voucher bigint, p_order bigint, p_actor text,
    out verdict smallint, out changed voucher_order)
language sql security definer set search_path from current
begin atomic
    select * from move_order(p_voucher, p_order, 'paid', 'refunded', p_actor);
end;

revoke execute on function refund_order from public;
