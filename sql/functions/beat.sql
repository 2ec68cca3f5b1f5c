-- Note the time in this database. A copy of the database thus shows how old it is. The instance
-- that expires orders calls this function often, but a write happens only every few seconds, and
-- waits for no disk and no standby. Returns 0.
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
