-- Make this database, which has received the half of a cell, the cell of this half. `p_half` is what
-- half_sequences() of the other database has returned after give_half(). The transaction of
-- give_half() is the last one that changes rows of the half. So if its change of the table cell has
-- arrived, all rows have arrived.
create or replace function take_half(p_half json) returns void
language plpgsql
as $$
declare
    v_number integer := p_half ->> 'number';
    v_cells integer := p_half ->> 'cells';
begin
    lock table cell in exclusive mode;
    if exists (select from cell where (number, cells) = (v_number, v_cells)) then
        return;
    elsif not exists (select from cell where (number, cells) = (v_number - v_cells / 2, v_cells)) then
        raise exception 'the cell %/% has not been given up, or not all of it has arrived', v_number,
            v_cells;
    end if;
    delete from used_key where voucher_id = 0 and made_id % v_cells <> v_number;
    insert into voucher
    select v.* from moved_voucher m, jsonb_populate_record(null::voucher, m.voucher) v;
    delete from moved_voucher;
    perform setval('voucher_id_seq', (p_half ->> 'last_voucher')::bigint),
            setval('voucher_order_id_seq', (p_half ->> 'last_number')::bigint);
    delete from cell;
    -- The aggregate already has these vouchers, from the other cell. So this cell publishes only
    -- their later changes.
    perform publish_own(v_number, v_cells);
    insert into cell (number, cells) values (v_number, v_cells);
end
$$;
