-- The vouchers that may have an order: its id ends with the same 20 bits, see queries/read_order.sql.
-- Before, that query looked into every 2^20th id up to the largest. The id itself is not in the index,
-- see voucher_begin in 0001_baseline.sql.
--
-- The operator may create the index with `concurrently` beforehand: then it is used, and the sale does
-- not wait for it.

set local lock_timeout = '5s';

alter table voucher validate constraint voucher_id_bound;

create index if not exists voucher_low_bits on voucher ((id & 1048575));

do $$ begin
    if not (select indisvalid from pg_index where indexrelid = 'voucher_low_bits'::regclass) then
        raise exception 'index voucher_low_bits is invalid: drop it';
    end if;
end $$;
