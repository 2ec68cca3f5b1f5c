-- What an edit has changed, see functions/patch_voucher.sql. The event of an edit changes no stock.
alter table stock_event add column if not exists detail text;

create or replace view voucher_history as
select voucher_id, id::bigint as id, id::bigint as order_id, created_at as at,
       'shopper:' || user_id as actor, null::order_status as from_status,
       'unpaid'::order_status as to_status, -1 as stock_change, null::text as detail, follows
from voucher_order
union all
select voucher_id, id::bigint, order_id::bigint, at, actor::text, from_status, to_status,
       case when from_status < 'cancelled' and to_status >= 'cancelled' then 1 else 0 end,
       detail, null
from order_event
union all
select voucher_id, id::bigint, null::bigint, at, actor::text, null::order_status,
       null::order_status, stock_change, detail, null
from stock_event;
