-- What the feed of all vouchers reads, see functions/feed_events.sql: the changes by their number, which
-- is the id without the bits of the voucher.
--
-- A large batch is in the index by its first order only, so its other orders cost no entry. They
-- follow the first one under the primary key. Orders that were placed before this migration, or by a
-- function that began before it, do not follow: each has its own entry.
--
-- The column and the indexes may exist already, see preparations.

set local lock_timeout = '5s';

alter table voucher_order add column if not exists follows boolean; -- true or NULL

create index if not exists voucher_order_feed on voucher_order ((id >> 20)) where follows is null;
create index if not exists order_event_feed on order_event ((id >> 20));
create index if not exists stock_event_feed on stock_event ((id >> 20));

do $$ declare
    v_invalid text := (select min(i.indexrelid::regclass::text) from pg_index i
                       where i.indexrelid in ('voucher_order_feed'::regclass,
                                              'order_event_feed'::regclass,
                                              'stock_event_feed'::regclass)
                         and not i.indisvalid);
begin
    if v_invalid is not null then
        raise exception 'index % is invalid: drop it', v_invalid;
    end if;
end $$;

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
       null::order_status, stock_change, null::text, null
from stock_event;
