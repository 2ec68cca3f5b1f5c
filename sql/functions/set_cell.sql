-- Make this database the cell K of N, given as "K/N". `seckill migrate --cell` calls this as the
-- owner.
create or replace function set_cell(p_cell text) returns void
language plpgsql
as $$
declare
    v_number integer := substring(p_cell from '^(\d{1,4})/\d{1,4}$');
    v_cells integer := substring(p_cell from '^\d{1,4}/(\d{1,4})$');
    v_cell record;
begin
    if (v_cells between 1 and 1024 and v_cells & (v_cells - 1) = 0 and v_number < v_cells) is not true then
        raise exception 'there is no cell %: the number of cells is a power of two up to 1024, and they'
            ' are counted from 0', p_cell;
    end if;
    select * into v_cell from cell order by number limit 1 for update;
    if v_cell.number < 0 then
        raise exception 'this database is an aggregate of cells: a cell needs a database of its own';
    end if;
    if (v_cell.number, v_cell.cells) = (v_number, v_cells) then
        return;
    end if;
    if exists (select from voucher) then
        raise exception 'this database holds vouchers of cell %/%, whose ids do not belong to cell'
            ' %: use a new database, or split this one with `seckill cells split`',
            v_cell.number, v_cell.cells, p_cell;
    end if;
    update cell set number = v_number, cells = v_cells;
end
$$;
