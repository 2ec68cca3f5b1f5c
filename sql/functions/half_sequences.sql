-- Return the argument of take_half(): the half, and the last numbers that this cell has given.
create or replace function half_sequences(p_number integer, p_cells integer) returns json
language sql
as $$
    select json_build_object('number', p_number, 'cells', p_cells, 'last_voucher', v.last_value,
                             'last_number', o.last_value)
    from voucher_id_seq v, voucher_order_id_seq o
$$;
