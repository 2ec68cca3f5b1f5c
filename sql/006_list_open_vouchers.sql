-- The list of open vouchers walks along the ends of those that have not ended. Those that
-- have not begun are told apart within the index, without a look at the table: there may be
-- very many of them, and a page of the table holds but a few.
create index voucher_end_begin on voucher (end_at, begin_at);
drop index voucher_end;
