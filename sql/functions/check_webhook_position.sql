-- Raise a violation of webhook_position if the position of an endpoint is beyond the last change.
create or replace function check_webhook_position(p_number bigint) returns void
language plpgsql
as $$
begin
    if p_number > (select s.last_value from voucher_order_id_seq s) then
        raise exception 'the position is beyond the last change'
            using errcode = 'check_violation', constraint = 'webhook_position';
    end if;
end
$$;
