-- Remove an endpoint. Returns no row if there is no such endpoint.
create or replace function remove_webhook(p_id bigint) returns setof webhook
language sql security definer set search_path from current
as $$
    delete from webhook w where w.id = p_id returning *
$$;

revoke execute on function remove_webhook from public;
