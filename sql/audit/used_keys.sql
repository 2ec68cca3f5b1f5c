-- every key belongs either to a voucher, or to the request that has created a voucher
select format('voucher %s: key "%s" of %s has created %s', voucher_id, key, actor,
              coalesce(made_id::text, 'nothing'))
from used_key
where (voucher_id = 0) <> (made_id is not null);
