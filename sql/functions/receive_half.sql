-- Make this new database the receiver of the half of a cell that publish_half() describes. Until
-- take_half() it has no cell of its own, so no instance serves from it. Returns the statement that
-- subscribes to the half.
create or replace function receive_half(p_half json) returns text
language plpgsql
as $$
begin
    if exists (select from voucher) or exists (select from payment)
            or exists (select from cell where number >= 0 and cells > 1)
            or exists (select from pg_subscription s join pg_database d on d.oid = s.subdbid
                       where d.datname = current_database()) then
        raise exception 'this database holds vouchers or payments, is one of many cells, or receives'
            ' data: the half of a cell needs a new one';
    end if;
    truncate cell, moved_voucher, voucher_order, order_event, stock_event, used_key, payment, lottery,
        lottery_entry;
    insert into cell values (-1, (p_half ->> 'cells')::integer, 'infinity');
    return format('create subscription %1$I connection %2$L publication %1$I', p_half ->> 'name',
                  p_half ->> 'url');
end
$$;
