-- Note how far an endpoint has received the events of the feed, or why it did not receive the next
-- one. An endpoint is disabled if its attempts have failed for 3 days. Its last 100 deliveries are
-- kept.
--
--   p_version   the version of the row that the deliverer has read
--   p_fence     the fence of the deliverer's lock
--   p_error     NULL: the endpoint has received the events up to the position
--   p_events    the ids of the events that were sent since the last note, and for each of them the
--               time, the duration and the error; NULL: it was received
--
-- Returns whether the endpoint is now disabled. Returns NULL, and changes nothing, if an operator
-- has changed the row since, or a later deliverer has.
drop function if exists note_webhook(bigint, bigint, bigint, bigint, bigint, text); -- without p_events

create or replace function note_webhook(p_id bigint, p_version bigint, p_fence bigint,
    p_first bigint, p_number bigint, p_error text, p_events bigint[] default '{}',
    p_times timestamptz[] default '{}', p_durations_ms bigint[] default '{}',
    p_errors text[] default '{}', out is_disabled boolean)
language plpgsql security definer set search_path from current
as $$
begin
    update webhook
    set first = p_first,
        number = p_number,
        fence = p_fence,
        error = p_error,
        failing_since = case when p_error is not null
                             then coalesce(failing_since, clock_timestamp()) end,
        disabled_at = case when failing_since < clock_timestamp() - interval '3 days'
                                and p_error is not null
                           then clock_timestamp() end,
        deliveries = (deliveries || added)[cardinality(deliveries || added) - 99:]
    from (select array(select row(d.*)::delivery
                       from unnest(p_events, p_times, p_durations_ms, p_errors) d) as added) as log
    where id = p_id and version = p_version and fence <= p_fence and disabled_at is null
    returning disabled_at is not null into is_disabled;
end
$$;

revoke execute on function note_webhook from public;
