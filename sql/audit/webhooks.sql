-- an endpoint has a position of the feed, and fails since the time of its first error
select format('webhook %s: position %s_%s, error %s', id, first, number, coalesce(error, 'none'))
from webhook
where first > number or (error is null) <> (failing_since is null)
   or (disabled_at is not null and error is null)
