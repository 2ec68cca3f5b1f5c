-- every key belongs to a voucher, or to a request that has created one
select format('voucher %s: key "%s" of %s has created %s', voucher_id, key, actor,
              coalesce(made_id::text, 'nothing'))
from used_key
where (voucher_id = 0) <> (made_id is not null);
