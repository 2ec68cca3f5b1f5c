-- Endpoints that get the events of the feed, see functions/note_webhook.sql and app/deliver.
create table webhook (
    id bigint generated always as identity primary key,
    url text not null check (url ~ '^https?://' and length(url) <= 2000),
    secret text not null check (secret ~ '^whsec_[A-Za-z0-9+/]{32}$'), -- signs the messages
    version bigint not null default 1, -- grows whenever an operator changes the row
    -- the position in the feed up to which the endpoint has received the events
    first bigint not null check (first >= 0),
    number bigint not null check (number >= first),
    fence bigint not null default 0, -- of the lock of the deliverer that last changed the row
    created_at timestamptz not null default clock_timestamp(),
    -- of the attempts since the last success
    failing_since timestamptz,
    error text,
    disabled_at timestamptz, -- no more attempts, until an operator enables the endpoint
    constraint webhook_failing check ((error is null) = (failing_since is null)
                                      and (disabled_at is null or error is not null))
);
