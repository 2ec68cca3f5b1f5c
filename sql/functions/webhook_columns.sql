-- after feed_events
-- after unix_us
-- Return what the service shows of an endpoint, in the order of `enum state_column` in
-- app/store/store_webhooks.c: its id, for how many microseconds its next event has waited and its
-- attempts have failed, 1 if it is disabled, its URL, its position in the feed, and since when and why
-- its attempts fail. An endpoint that is disabled has the first two times 0.
create or replace function webhook_columns(w webhook)
returns table (id bigint, lag_us bigint, failing_us bigint, is_disabled bigint, url text, first bigint,
               number bigint, failing_since timestamptz, error text)
language sql stable rows 1
as $$
    select w.id,
           coalesce(unix_us(clock_timestamp()) - unix_us(next.at), 0),
           coalesce(unix_us(clock_timestamp())
                    - unix_us(case when w.disabled_at is null then w.failing_since end), 0),
           (w.disabled_at is not null)::integer::bigint,
           w.url, w.first, w.number, w.failing_since, w.error
    from (values (1)) as always
    left join lateral feed_events(w.first, w.number, 9223372036854775807, 1) next
        on w.disabled_at is null
$$;
