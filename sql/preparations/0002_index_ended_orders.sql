create index concurrently if not exists voucher_order_ended_new
    on voucher_order (voucher_id, user_id, fence) where slot is null and fence is not null
