-- Limit the publication for the aggregate, if there is one, to the rows of the cell p_number of
-- p_cells. So the publication has no rows that this cell has given to another cell. While this
-- database receives a half, p_number is -1, and the publication has no rows, because the aggregate
-- gets the half from the other cell.
create or replace function publish_own(p_number integer, p_cells integer) returns void
language plpgsql
as $$
begin
    if exists (select from pg_publication where pubname = 'seckill_cell') then
        execute format(
            'alter publication seckill_cell set table voucher %3$s, cell where (number = %1$s and %1$s >= 0),'
            ' voucher_order where (voucher_id %% %2$s = %1$s),'
            ' order_event where (voucher_id %% %2$s = %1$s),'
            ' stock_event where (voucher_id %% %2$s = %1$s)', p_number, p_cells,
            case when p_number < 0 then 'where (false)' end);
    end if;
end
$$;
