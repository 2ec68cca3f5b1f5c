-- after move_order
--
-- Redeem a paid order. See move_order(). The first line is for ../queries/changed_functions.sql: it
-- says that this function calls move_order(), which must be created first.
create or replace function redeem_order(p_voucher bigint, p_order bigint, p_actor text,
    out verdict smallint, out changed voucher_order)
language sql security definer set search_path from current
begin atomic
    select * from move_order(p_voucher, p_order, 'paid', 'redeemed', p_actor);
end;

revoke execute on function redeem_order from public;
