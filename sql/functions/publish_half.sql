-- Prepare the split of this cell K/N into K/2N and (K+N)/2N: publish what the second half, the new
-- cell, needs. A publication cannot filter the table voucher, because the type of its id is a domain. So
-- the vouchers follow as rows of moved_voucher when give_half() gives them up. Returns the argument of
-- receive_half().
create or replace function publish_half(p_url text) returns json
language plpgsql
as $$
declare
    v_cell record;
    v_number integer;
    v_cells integer;
    v_name text;
begin
    select * into v_cell from cell order by number limit 1;
    v_cells := 2 * v_cell.cells;
    v_number := v_cell.number + v_cell.cells;
    v_name := format('seckill_half_%s_%s', v_number, v_cells);
    if v_cell.number < 0 then
        raise exception 'this database is an aggregate of cells, or receives a half of a cell: only a'
            ' cell can be split';
    elsif v_cells > 1024 then
        raise exception 'cell %/% cannot be split: there are at most 1024 cells', v_cell.number,
            v_cell.cells;
    end if;
    if not exists (select from pg_publication where pubname = v_name) then
        execute format(
            'create publication %1$I for table cell, moved_voucher where (id %% %3$s = %2$s),'
            ' voucher_order where (voucher_id %% %3$s = %2$s),'
            ' order_event where (voucher_id %% %3$s = %2$s),'
            ' stock_event where (voucher_id %% %3$s = %2$s),'
            ' lottery where (voucher_id %% %3$s = %2$s),'
            ' lottery_entry where (voucher_id %% %3$s = %2$s),'
            ' used_key where (voucher_id %% %3$s = %2$s or voucher_id = 0),'
            ' payment where (order_id %% %3$s = %2$s)', v_name, v_number, v_cells);
    end if;
    return json_build_object('name', v_name, 'number', v_number, 'cells', v_cells, 'url', p_url);
end
$$;
