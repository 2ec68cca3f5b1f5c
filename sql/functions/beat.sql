-- Note the time in this database, so that a copy of the database shows its age. Called often by the
-- instance that expires orders. Writes every few seconds, and waits for no disk and no standby.
-- Returns 0.
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
