-- The Idempotency-Key of each request that has changed something, except of orders, which keep
-- their own. A request with a key that is here is answered as the first one was, see use_key().
-- The key of a request that creates has no id yet to belong to: it is in the row 0 of its actor.
create table used_key (
    voucher_id bigint not null check (voucher_id >= 0),
    actor event_actor not null,
    key request_key not null,
    request text not null, -- what was asked for, as MD5
    made_id positive_id, -- what the request has created
    at timestamptz not null default clock_timestamp(),
    primary key (voucher_id, actor, key),
    constraint used_key_made check ((voucher_id = 0) = (made_id is not null))
);

-- finds the keys that are old enough to be deleted
create index used_key_at on used_key (at);
