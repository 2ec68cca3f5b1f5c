create index concurrently if not exists stock_event_feed on stock_event ((id >> 20))
