-- An upper bound of the ids of vouchers: that of voucher_order_id_seq. Ids that next_voucher_id() makes
-- stay far below it: a voucher takes a number of that sequence, and 262,144 numbers begin the next
-- 65,536 ids. So there is room left for advance_ids(), no sum of the functions overflows, and an id is
-- exact in JSON, whose numbers may be limited to 53 bits.
--
-- Not valid: the exclusive lock is held for a moment only. 0006_index_low_bits.sql checks the rows.

set local lock_timeout = '5s'; -- behind a waiting lock the sale would wait too

do $$ declare
    v_id bigint := (select max(id) from voucher);
begin
    if v_id > 8796093022207 then
        raise exception 'voucher %: ids must not exceed 8796093022207. Archive or delete it, and all'
            ' others above', v_id;
    end if;
end $$;

alter table voucher add constraint voucher_id_bound check (id <= 8796093022207) not valid;
