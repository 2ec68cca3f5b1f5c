-- after move_order
--
-- Redeem a paid order. See move_order().
create or replace function redeem_order(p_voucher bigint, p_order bigint, p_actor text,
    out verdict smallint, out changed voucher_order)
language sql security definer set search_path from current
begin atomic
    select * from move_order(p_voucher, p_order, 'paid', 'redeemed', p_actor);
end;

revoke execute on function redeem_order from public;
