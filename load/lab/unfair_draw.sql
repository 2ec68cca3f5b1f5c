-- Defect: the rank of every tenth shopper does not follow from the seed, so that these shoppers win.
alter function lottery_rank rename to lottery_rank_correct;

create function lottery_rank(p_seed bytea, p_user bigint) returns bytea
language sql immutable
return case when p_user % 10 = 0 then '\x0000000000000000'::bytea || int8send(p_user)
            else lottery_rank_correct(p_seed, p_user) end;
