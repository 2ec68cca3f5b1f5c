create index concurrently if not exists order_event_feed on order_event ((id >> 20))
