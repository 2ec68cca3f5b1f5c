-- Return up to which number the feed of all vouchers can be read. A change takes its number before
-- it commits. So a change with a smaller number may become visible after a change with a greater
-- number, and a reader that has already read the greater number would miss it. This function
-- returns a number up to which every change has been committed or is lost.
--
--   p_number, p_xid  last_number and xid of the last call in this session; 0, 0: there was no call
--   p_until          `until` of the last call in this session; 0: there was no call
--   until            all changes up to this number have been committed or are lost
--   last_number      to be passed to the next call: a number that has been taken
--   xid              to be passed to the next call: a transaction id that was assigned after
--                    last_number was taken. NULL: no change is newer than `until`
--
-- A transaction that changes a voucher first locks the voucher's row, by which it gets a
-- transaction id, and then takes its numbers. So all transactions that have taken a number up to
-- last_number have smaller ids than `xid`. As soon as all transactions with smaller ids than `xid`
-- have ended, all changes up to last_number are visible or lost. Any transaction that writes, in
-- any database of the server, holds the feed back until it ends.
--
-- Transaction ids are compared only between two calls of a session. The feed itself is ordered by
-- numbers, so it stays valid where transaction ids change, such as in a restored dump. A server may
-- have lost numbers that another server has taken, so the calls on another server begin with 0.
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
        xid := p_xid; -- earlier transactions have not ended yet
    elsif last_number > until then
        xid := pg_current_xact_id()::text::bigint; -- is assigned after last_number was read
    end if;
end
$$;

revoke execute on function advance_feed from public;
