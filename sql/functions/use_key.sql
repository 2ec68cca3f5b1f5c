-- Record the Idempotency-Key of a request, in the transaction of its change. (The key of a request
-- that places an order is in voucher_order.) `is_new` is true if the key was not used before.
-- Otherwise `is_same` says whether the key was used for the same request, and `made_id` is the
-- voucher that the first request created, if any. Waits while another session uses the same key.
--
-- If a request creates a voucher, p_voucher is 0, because a repeated request does not know the
-- voucher, and p_made_id is the voucher. Otherwise p_made_id is NULL.
--
-- Keys are kept for 7 days. Each new key deletes up to two keys that are older, so the table stays
-- bounded without a separate task.
create or replace function use_key(p_voucher bigint, p_actor text, p_key text, p_request text,
    p_made_id bigint, out is_new boolean, out is_same boolean, out made_id bigint)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan set jit = off
as $$
begin
    insert into used_key (voucher_id, actor, key, request, made_id)
    values (p_voucher, p_actor, p_key, p_request, p_made_id)
    on conflict do nothing;
    is_new := found;
    select k.request = p_request, k.made_id into is_same, made_id
    from used_key k
    where k.voucher_id = p_voucher and k.actor = p_actor and k.key = p_key;
    if is_new then
        delete from used_key k
        where k.ctid = any (array(
            select old.ctid from used_key old
            where old.at < now() - interval '7 days'
            order by old.at limit 2
            for update skip locked));
    end if;
end
$$;
