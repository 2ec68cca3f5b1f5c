-- Split a cell: this database, a copy of the cell, becomes a cell of a larger number of cells. K/N
-- is the cell K of N cells, which has the vouchers whose ids leave K when divided by N. So a copy
-- of the cell 1/2 can become 1/4 or 3/4. The database keeps the vouchers of its new number with
-- their orders and history, and deletes all others. To be called by the owner, while no instance is
-- connected. Returns how many vouchers were deleted.
--
-- Both table locks last until the commit. A session of the service reads the cell when it begins.
-- If a session has already read the old cell, this function fails. A session that begins now waits,
-- and reads the new cell. Other sessions may still call functions that write. Each of these
-- functions first locks the row of its voucher. So a call under way ends before the rows are
-- deleted, and a later call waits and then does not find the voucher.
create or replace function split_cell(p_number integer, p_cells integer) returns bigint
language plpgsql
set lock_timeout = '5s'
as $$
declare
    v_cell record;
    v_sessions text;
    v_deleted bigint;
begin
    lock table cell in access exclusive mode;
    select * into strict v_cell from cell where number >= 0;
    if p_cells <= v_cell.cells or p_cells > 1024 or p_cells & (p_cells - 1) <> 0
            or p_number not between 0 and p_cells - 1 or p_number % v_cell.cells <> v_cell.number then
        raise exception 'cell %/% cannot become %/%: with more cells, a power of two up to 1024, its copies'
            ' are those whose number leaves % when divided by %', v_cell.number, v_cell.cells, p_number,
            p_cells, v_cell.number, v_cell.cells;
    end if;
    perform pg_stat_clear_snapshot(); -- or pg_stat_activity may be outdated
    -- A superuser has the right to execute every function, so the rights of superusers do not
    -- count.
    select string_agg(format('%s of %s', a.pid, a.usename), ', ' order by a.pid) into v_sessions
    from pg_stat_activity a join pg_roles r on r.oid = a.usesysid
    where a.datname = current_database() and a.pid <> pg_backend_pid()
      and (a.application_name = 'seckill'
           or (r.rolname <> current_user and not r.rolsuper
               and has_function_privilege(r.oid, 'place_orders'::regproc::oid, 'execute')));
    if v_sessions is not null then
        raise exception 'sessions of the service are connected: %. Stop all instances first: they know'
            ' this database as cell %/%', v_sessions, v_cell.number, v_cell.cells;
    end if;
    lock table voucher in exclusive mode;
    delete from payment p using voucher_order o
        where o.id = p.order_id and o.voucher_id % p_cells <> p_number;
    delete from voucher_order where voucher_id % p_cells <> p_number;
    delete from order_event where voucher_id % p_cells <> p_number;
    delete from stock_event where voucher_id % p_cells <> p_number;
    delete from used_key where coalesce(made_id, voucher_id) % p_cells <> p_number;
    delete from voucher where id % p_cells <> p_number;
    get diagnostics v_deleted = row_count;
    update cell set number = p_number, cells = p_cells;
    return v_deleted;
end
$$;
