-- The payments of archived orders stay, see functions/archive_vouchers.sql.
alter table payment add is_archived boolean not null default false;
