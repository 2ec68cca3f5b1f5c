-- Two roles: the owner of the tables migrates, the service only calls functions and reads. So
-- no path of a program can change an order and forget its history, and a program with the
-- service's password cannot rewrite it.
--
-- With one role for both all works alike, but nothing is enforced.

-- The functions that write work with their owner's rights, on the tables of their own schema
-- whatever the caller's search path is, for those who were told that they may call them. Their
-- parts work with the caller's rights, and so for nobody but them.
do $$
declare
    f regprocedure;
begin
    foreach f in array array(
        select p.oid::regprocedure from pg_proc p
        where p.pronamespace = current_schema::regnamespace
          and p.proname in ('place_orders', 'create_voucher', 'patch_voucher',
                            'restock_voucher', 'pay_order', 'cancel_order', 'refund_order',
                            'redeem_order', 'expire_orders'))
    loop
        execute format('alter function %s security definer set search_path = %I, pg_temp',
                       f, current_schema);
        execute format('revoke execute on function %s from public', f);
    end loop;
end
$$;

-- Give a role what the service needs. `seckill migrate` repeats it for every role that has it,
-- so a later version of this function reaches them.
create function grant_service(p_role text) returns void
language plpgsql
as $$
declare
    f regprocedure;
begin
    execute format('grant usage on schema %I to %I', current_schema, p_role);
    execute format('grant select on voucher, voucher_order, order_event, stock_event,'
                   ' voucher_history to %I', p_role);
    execute format('grant usage on sequence voucher_id_seq to %I', p_role);
    foreach f in array array(
        select p.oid::regprocedure from pg_proc p
        where p.pronamespace = current_schema::regnamespace
          and p.proname in ('place_orders', 'find_orders', 'resolve_orders', 'order_detail',
                            'unix_us', 'create_voucher', 'patch_voucher', 'restock_voucher',
                            'pay_order', 'cancel_order', 'refund_order', 'redeem_order',
                            'expire_orders'))
    loop
        execute format('grant execute on function %s to %I', f, p_role);
    end loop;
end
$$;
