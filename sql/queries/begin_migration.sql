-- Refuse a standby. Create the table that records the applied files, if it is missing. Set the
-- search path so that it begins with the schema of the tables: functions with "set search_path from
-- current" copy it.
do $$
begin
    if pg_is_in_recovery() then
        raise exception 'this server is a standby: name the primary in SECKILL_DATABASE_URL';
    end if;
    if to_regclass('schema_file') is null then
        create table schema_file (path text primary key, checksum text not null,
                                  applied_at timestamptz not null default now());
    end if;
    perform set_config('search_path', quote_ident(current_schema) || ', pg_temp', false);
end
$$
