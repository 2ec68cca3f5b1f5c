-- Publish the tables that lists read, for an aggregate of cells. The table payment is not
-- published, because two cells may have the same payment_ref. Returns the argument of
-- join_aggregate().
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
        perform publish_own(v_cell.number, v_cell.cells); -- without what a split has given away
    end if;
    return json_build_object('number', v_cell.number, 'cells', v_cell.cells, 'url', p_url);
end
$$;
