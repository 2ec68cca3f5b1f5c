-- Enable an endpoint, or disable it in the name of p_actor (NULL: an operator). If the position (p_first, p_number) of the
-- feed is not NULL, the endpoint gets the events behind it again. Returns no row if there is no such
-- endpoint. Raises a violation of webhook_position if the position is beyond the last change.
create or replace function change_webhook(p_id bigint, p_is_enabled boolean, p_first bigint,
    p_number bigint, p_actor text)
returns setof webhook
language plpgsql security definer set search_path from current
as $$
begin
    perform check_webhook_position(p_number);
    return query
    update webhook w
    set first = coalesce(p_first, w.first),
        number = coalesce(p_number, w.number),
        error = case when not p_is_enabled
                     then coalesce(w.error, 'disabled by ' || coalesce(p_actor, 'an operator')) end,
        failing_since = case when not p_is_enabled
                             then coalesce(w.failing_since, clock_timestamp()) end,
        disabled_at = case when not p_is_enabled
                           then coalesce(w.disabled_at, clock_timestamp()) end,
        version = w.version + 1
    where w.id = p_id
    returning *;
end
$$;

revoke execute on function change_webhook from public;
