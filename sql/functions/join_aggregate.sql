-- For `seckill migrate --aggregate`: check that this database may receive a copy of the cell that
-- publish_cell() describes. If the database is new, it becomes an aggregate, which has no cell of
-- its own. Returns the statement that subscribes to the cell, or NULL if the subscription already
-- exists.
create or replace function join_aggregate(p_cell json) returns text
language plpgsql
as $$
declare
    v_number integer := p_cell ->> 'number';
    v_cells integer := p_cell ->> 'cells';
    v_url text := p_cell ->> 'url';
    v_name text := 'seckill_cell_' || v_number;
    v_is_aggregate boolean := false;
    v_known record;
    v_cell record;
begin
    for v_known in
        select s.subname, s.subconninfo from pg_subscription s join pg_database d on d.oid = s.subdbid
        where d.datname = current_database() and s.subname ~ '^seckill_cell_\d+$'
    loop
        v_is_aggregate := true;
        if v_known.subname = v_name and v_known.subconninfo = v_url then
            return null;
        elsif v_known.subname = v_name then
            raise exception 'another database replicates to this aggregate as cell %/%: each cell needs'
                ' a number of its own', v_number, v_cells;
        end if;
    end loop;
    if not v_is_aggregate then
        if exists (select from voucher) then
            raise exception 'this database holds vouchers of its own: an aggregate needs a new one';
        end if;
        delete from cell;
        insert into cell values (-1, v_cells, 'infinity');
    end if;
    select * into v_cell from cell
    where number >= 0 and number % least(cells, v_cells) = v_number % least(cells, v_cells) limit 1;
    if found then
        raise exception 'cell %/% cannot replicate to this aggregate, which has cell %/%: both have the'
            ' same vouchers', v_number, v_cells, v_cell.number, v_cell.cells;
    end if;
    return format('create subscription %I connection %L publication seckill_cell', v_name, v_url);
end
$$;
