-- Give a role the rights of the service: to read, and to call the functions that write, which run
-- with the rights of their owner. `seckill migrate` calls this function again for every role that
-- has these rights. The service could also connect as the owner, but then nothing would keep it
-- from changing an order without writing the order's history.
create or replace function grant_service(p_role text) returns void
language plpgsql
as $$
declare
    f regprocedure;
begin
    execute format('grant usage on schema %I to %I', current_schema, p_role);
    execute format('grant select on voucher, voucher_order, payment, order_event,'
                   ' stock_event, used_key, voucher_history, cell, moved_voucher, webhook,'
                   ' drawn_entry to %I', p_role);
    foreach f in array array(
        select p.oid::regprocedure from pg_proc p
        where p.pronamespace = current_schema::regnamespace
          and p.proname in ('place_orders', 'place_many', 'find_orders', 'resolve_orders',
                            'order_detail', 'first_order_since', 'unix_us', 'segment_of',
                            'next_voucher_id', 'voucher_columns', 'create_voucher',
                            'patch_voucher', 'restock_voucher',
                            'pay_order', 'cancel_order', 'refund_order', 'redeem_order',
                            'create_voucher_once', 'restock_voucher_once', 'change_order',
                            'expire_orders', 'expire_batches', 'beat', 'advance_feed',
                            'feed_events', 'note_webhook', 'webhook_columns', 'add_webhook',
                            'change_webhook', 'remove_webhook', 'lottery_columns',
                            'draw_lotteries', 'read_entry'))
    loop
        execute format('grant execute on function %s to %I', f, p_role);
    end loop;
end
$$;
