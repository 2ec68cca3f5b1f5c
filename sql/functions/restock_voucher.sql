-- Add stock. A negative number removes unsold stock. Returns no row if there is no such voucher.
create or replace function restock_voucher(p_voucher bigint, p_add bigint,
    p_actor text default 'admin')
returns setof voucher
language plpgsql security definer set search_path from current
as $$
begin
    return query
    with changed as (
        update voucher v
        set stock_total = v.stock_total + p_add,
            stock_left = v.stock_left + p_add,
            version = v.version + 1
        where v.id = p_voucher
        returning *
    ), event as (
        insert into stock_event (voucher_id, id, at, actor, stock_change)
        select v.id, next_event_id(v.id), clock_timestamp(), p_actor, p_add from changed v
    )
    select * from changed;
    if found then
        perform pg_notify('seckill_voucher', p_voucher::text);
    end if;
end
$$;

revoke execute on function restock_voucher from public;
