-- Note that this database is alive: a copy of it is as old as the time that the copy shows. Called
-- often by the instance that expires orders; writes every few seconds, and waits for no disk and no
-- standby. Returns 0.
create or replace function beat() returns integer
language plpgsql security definer set search_path from current
as $$
begin
    update cell set alive_at = clock_timestamp()
    where alive_at < clock_timestamp() - interval '4 s';
    if found then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    return 0;
end
$$;

revoke execute on function beat from public;
