do $$ begin
    for attempt in 1 .. 300 loop
        begin
            perform set_config('lock_timeout', '200ms', true); -- the sale waits behind a waiting lock
            alter table voucher_order add column if not exists follows boolean;
            return;
        exception when lock_not_available then
            perform pg_sleep(1);
        end;
    end loop;
    raise exception 'other sessions use the table voucher_order';
end $$
