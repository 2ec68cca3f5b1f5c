-- Add an endpoint for a request with the key p_key (NULL: no key). The endpoint gets the events behind
-- the position (p_first, p_number) of the feed. If the position is NULL, it gets the changes from now
-- on. If the request is repeated, returns the present state of the endpoint without its secret.
--
-- Raises a violation of webhook_count if there are 64 endpoints, of webhook_position if the position is
-- beyond the last change, and of used_key_pkey if the key belongs to another request or if its endpoint
-- was removed.
create or replace function add_webhook(p_url text, p_secret text, p_first bigint, p_number bigint,
    p_key text, p_actor text)
returns setof webhook
language plpgsql security definer set search_path from current
as $$
declare
    v_webhook webhook;
    v_last bigint := (select s.last_value - (not s.is_called)::integer from voucher_order_id_seq s);
    v_use record;
begin
    v_webhook.id := nextval(pg_get_serial_sequence('webhook', 'id'));
    if p_key is not null then
        select * into v_use
        from use_key(0, p_actor, p_key, md5(row('webhook', p_url, p_first, p_number)::text), v_webhook.id);
        perform refuse_other_request(v_use.is_same);
        if not v_use.is_new then
            select * into v_webhook from webhook w where w.id = v_use.made_id;
            perform refuse_other_request(found);
            v_webhook.secret := null;
            return next v_webhook;
            return;
        end if;
    end if;
    -- Without this lock, two calls could count 63 endpoints at once.
    perform pg_advisory_xact_lock(5265717973);
    if (select count(*) from webhook) >= 64 then
        raise exception 'there are 64 endpoints'
            using errcode = 'check_violation', constraint = 'webhook_count';
    end if;
    perform check_webhook_position(p_number);
    return query
    insert into webhook (id, url, secret, first, number) overriding system value
    values (v_webhook.id, p_url, p_secret, coalesce(p_first, v_last), coalesce(p_number, v_last))
    returning *;
end
$$;

revoke execute on function add_webhook from public;
