create index concurrently if not exists voucher_low_bits on voucher ((id & 1048575))
