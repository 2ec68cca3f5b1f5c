-- The index of slots begins with the segment of the voucher, see functions/segment_of.sql, and that
-- of ended orders with the voucher. Both began with the shopper: each order changed another page, so
-- beside ten million orders a sale was slower, most of all after a checkpoint.
--
-- Each index that already exists under its new name is used: the operator may create both with
-- `concurrently` beforehand, so that the sale does not wait for them.

create unique index if not exists voucher_order_slot_new
    on voucher_order ((voucher_id >> 16), user_id, voucher_id, slot);
create index if not exists voucher_order_ended_new
    on voucher_order (voucher_id, user_id, fence) where slot is null and fence is not null;

do $$ declare
    v_invalid text := (select min(i.indexrelid::regclass::text) from pg_index i
                       where i.indrelid = 'voucher_order'::regclass and not i.indisvalid);
begin
    if v_invalid is not null then
        raise exception 'index % is invalid: drop it', v_invalid;
    end if;
end $$;

drop index voucher_order_slot, voucher_order_ended;
alter index voucher_order_slot_new rename to voucher_order_slot;
alter index voucher_order_ended_new rename to voucher_order_ended;
