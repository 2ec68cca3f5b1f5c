-- How far the feed of all vouchers can be read. A change takes its number before it commits, so a change
-- with a smaller number may become visible later, and a reader of a larger one would skip it. This
-- function returns a number up to which every change has committed or is lost.
--
--   p_number, p_xid  what the last call of this session returned as last_number and xid; 0, 0: nothing
--   p_until          what the last call of this session returned as `until`; 0: nothing
--   until            the changes with numbers up to this one are complete
--   last_number      the last number that was taken
--   xid              what the next call compares; NULL: no change is newer than `until`
--
-- A transaction that changes a voucher first locks the voucher's row, by which it gets its id, and
-- then takes its numbers. So all transactions that have taken a number up to last_number have smaller
-- ids than `xid`, which is assigned later. When all transactions with smaller ids than `xid` have
-- ended, all changes up to last_number are visible or lost. Transactions that write anything in any
-- database of the server hold the feed back until they end.
--
-- The comparison uses ids of transactions only between two calls. The feed itself is ordered by
-- numbers, so it stays valid where ids of transactions change, such as in a restored dump. Another
-- server may have lost numbers that this one has taken: there, begin with 0 again.
create or replace function advance_feed(p_number bigint, p_xid bigint, p_until bigint,
    out until bigint, out last_number bigint, out xid bigint)
language plpgsql security definer set search_path from current
as $$
begin
    if pg_current_xact_id_if_assigned() is not null then
        raise exception 'the transaction has an id already';
    end if;
    until := p_until;
    if p_xid > 0 and pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= p_xid then
        until := p_number;
    end if;
    select s.last_value - (not s.is_called)::integer into last_number from voucher_order_id_seq s;
    if p_xid > 0 and until <> p_number then
        last_number := p_number;
        xid := p_xid; -- still waits
    elsif last_number > until then
        xid := pg_current_xact_id()::text::bigint; -- after last_number was read
    end if;
end
$$;

revoke execute on function advance_feed from public;
