-- Returns the endpoints that are not disabled.
select id, version, fence, url, secret, first, number
from webhook
where disabled_at is null
order by id
