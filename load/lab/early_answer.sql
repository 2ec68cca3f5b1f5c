-- Defect: answers before an order is on disk. The table of orders writes no WAL, so Postgres
-- empties it after a crash. No session can see that its commits are not durable.
alter table voucher_order set unlogged;
