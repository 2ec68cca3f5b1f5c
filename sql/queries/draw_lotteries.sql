-- Draw a batch of winners. Returns NULL if no draw is due; otherwise the voucher, how many winners
-- have been drawn, and 1 if the draw has ended.
select voucher, winners, has_ended::int from draw_lotteries(1000)
