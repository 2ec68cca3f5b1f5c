-- Make this copy of a cell a cell of its own, one of more cells: 1/2 becomes 1/4 or 3/4. It keeps the
-- vouchers of its new number with their orders and history, and deletes the others. For the owner,
-- before any instance is connected. Returns how many vouchers were deleted.
create or replace function split_cell(p_number integer, p_cells integer) returns bigint
language plpgsql
as $$
declare
    v_cell record;
    v_deleted bigint;
begin
    select * into strict v_cell from cell where number >= 0 for update;
    if p_cells <= v_cell.cells or p_cells > 1024 or p_cells & (p_cells - 1) <> 0
            or p_number not between 0 and p_cells - 1 or p_number % v_cell.cells <> v_cell.number then
        raise exception 'cell %/% cannot become %/%: with more cells, a power of two up to 1024, its copies'
            ' are those whose number leaves % when divided by %', v_cell.number, v_cell.cells, p_number,
            p_cells, v_cell.number, v_cell.cells;
    end if;
    delete from payment p using voucher_order o
        where o.id = p.order_id and o.voucher_id % p_cells <> p_number;
    delete from voucher_order where voucher_id % p_cells <> p_number;
    delete from order_event where voucher_id % p_cells <> p_number;
    delete from stock_event where voucher_id % p_cells <> p_number;
    delete from voucher where id % p_cells <> p_number;
    get diagnostics v_deleted = row_count;
    update cell set number = p_number, cells = p_cells;
    return v_deleted;
end
$$;
