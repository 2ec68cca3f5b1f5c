create unique index concurrently if not exists voucher_order_slot_new
    on voucher_order ((voucher_id >> 16), user_id, voucher_id, slot)
