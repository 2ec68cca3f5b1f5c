-- Raise an error unless the key of a request was used for the same request, see use_key().
create or replace function refuse_other_request(p_is_same boolean) returns void
language plpgsql
as $$
begin
    if p_is_same is not true then
        raise exception 'the key belongs to another request'
            using errcode = 'unique_violation', constraint = 'used_key_pkey';
    end if;
end
$$;
