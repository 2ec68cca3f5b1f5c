-- Returns the state of each endpoint: its id, for how many microseconds its next event has waited and
-- its attempts have failed, 1 if it is disabled, its URL, its position in the feed, and since when and
-- why its attempts fail. An endpoint that is disabled has the first two times 0.
select w.id,
       coalesce(unix_us(clock_timestamp()) - unix_us(next.at), 0) as lag_us,
       coalesce(unix_us(clock_timestamp())
                - unix_us(case when w.disabled_at is null then w.failing_since end), 0) as failing_us,
       (w.disabled_at is not null)::integer as is_disabled,
       w.url, w.first, w.number, w.failing_since, w.error
from webhook w
left join lateral feed_events(w.first, w.number, 9223372036854775807, 1) next
    on w.disabled_at is null
order by w.id
