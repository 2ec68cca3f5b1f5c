-- Draw a batch of winners. Returns the voucher, NULL if no draw is due; how many winners have been
-- drawn; 1 if the draw has ended; a lottery whose draw has failed, or NULL; and the reason.
select voucher, winners, has_ended::int, refused, reason from draw_lotteries(1000)
