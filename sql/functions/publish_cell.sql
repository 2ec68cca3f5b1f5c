-- Publish what an aggregate of cells receives: all that lists read. Not the table payment, in which
-- two cells may have the same payment_ref. Returns what join_aggregate() needs.
create or replace function publish_cell(p_url text) returns json
language plpgsql
as $$
declare
    v_cell record;
begin
    select * into v_cell from cell order by number limit 1;
    if v_cell.number < 0 then
        raise exception 'this database is an aggregate of cells, not a cell: name the database of a'
            ' cell';
    end if;
    if not exists (select from pg_publication where pubname = 'seckill_cell') then
        create publication seckill_cell
            for table voucher, voucher_order, order_event, stock_event, cell;
    end if;
    return json_build_object('number', v_cell.number, 'cells', v_cell.cells, 'url', p_url);
end
$$;
