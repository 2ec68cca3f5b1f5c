create index concurrently if not exists voucher_order_feed on voucher_order ((id >> 20)) where follows is null
