-- Defect: every fifth shopper is answered "entered", but the entry is deleted in the same transaction.
alter function enter_lottery rename to enter_lottery_correct;

create function enter_lottery(v voucher, p_users bigint[], p_refusal smallint) returns smallint[]
language plpgsql
as $$
declare
    v_verdicts smallint[] := enter_lottery_correct(v, p_users, p_refusal);
begin
    delete from lottery_entry e where e.voucher_id = v.id and e.user_id % 5 = 0;
    return v_verdicts;
end
$$;
