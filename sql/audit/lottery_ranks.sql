-- the ranks of a lottery follow from its seed, and the seed from the commitment
select format('voucher %s: the seed does not fit the commitment', id)
from voucher
where sha256(seed) <> commitment or (seed is not null and commitment is null)
union all
select format('voucher %s: the entry of shopper %s has a wrong rank', e.voucher_id, e.user_id)
from drawn_entry e
join voucher v on v.id = e.voucher_id
where e.rank <> substr(sha256(v.seed || int8send(e.user_id)), 1, 16);
