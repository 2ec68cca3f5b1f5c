-- Give the second half of this cell to the database that receives it. This transaction decides who
-- owns the half: it doubles cell.cells, and moves the rows of the vouchers to moved_voucher. A
-- function that changes a voucher or an order first locks the voucher's row. If it gets the lock
-- before this transaction, it commits first, and the other database receives its changes first.
-- Otherwise it does not find the voucher. The vouchers that stay are not locked.
--
-- The aggregate keeps the vouchers, because the table voucher is not published while they are
-- deleted. Afterwards this cell publishes only its own rows.
--
-- Returns true if the half has been given up, now or earlier. Returns false if other sessions held
-- locks for too long: call it again.
create or replace function give_half(p_number integer, p_cells integer) returns boolean
language plpgsql
set lock_timeout = '1s'
as $$
declare
    v_cell record;
begin
    -- next_voucher_id() holds this lock until the voucher is committed.
    perform pg_advisory_xact_lock(5265717971);
    select * into strict v_cell from cell where number >= 0;
    if (v_cell.number, v_cell.cells) = (p_number - p_cells / 2, p_cells) then
        return true;
    elsif (v_cell.number, v_cell.cells) is distinct from (p_number - p_cells / 2, p_cells / 2) then
        raise exception 'cell %/% cannot give up %/%', v_cell.number, v_cell.cells, p_number, p_cells;
    end if;
    if exists (select from pg_publication where pubname = 'seckill_cell') then
        -- ALTER PUBLICATION needs these locks, and may have to wait for a vacuum. So they are taken
        -- before any row is locked: orders go on during the wait.
        lock table voucher, voucher_order, order_event, stock_event, cell in share update exclusive mode;
        alter publication seckill_cell drop table voucher;
    end if;
    with given as (delete from voucher where id % p_cells = p_number returning *)
    insert into moved_voucher (id, voucher) select g.id, to_jsonb(g) from given g;
    update cell set cells = p_cells;
    perform publish_own(p_number - p_cells / 2, p_cells);
    perform pg_notify('seckill_voucher', '0'); -- 0: any voucher may have changed
    return true;
exception when lock_not_available then
    return false;
end
$$;
