-- The last deliveries of each endpoint, see functions/note_webhook.sql. They are in the row of the
-- endpoint, so a note writes one row, and they are removed with the endpoint.
create type delivery as (
    event_id bigint,
    at timestamptz, -- when the message was sent
    duration_ms bigint,
    error text -- null: the endpoint has received the event
);
alter table webhook add column deliveries delivery[] not null default '{}'; -- the last one is the newest
